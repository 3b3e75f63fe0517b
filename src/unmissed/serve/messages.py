"""Requests and answers of the service; OpenAPI describes them by these types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Limit = Annotated[int, Field(ge=1, description="Largest number of labels.")]
Threshold = Annotated[
    float, Field(allow_inf_nan=False, description="Labels with a lower score are left out; 0 leaves out none.")
]
Text = Annotated[str, Field(description="The text of a document.")]


class ProblemMessage(BaseModel):
    """An error."""

    status: int
    title: str
    detail: str


class Backend(BaseModel):
    """The method of a project."""

    backend_id: str


class ProjectMessage(BaseModel):
    """A project: a run that the service has opened."""

    project_id: str
    name: str
    language: str | None = None
    backend: Backend
    is_trained: bool = True
    modification_time: str | None = Field(None, description="When the run was last written, in ISO format.")
    n_labels: int
    n_features: int
    takes_text: bool = Field(description="Whether the run ranks texts.")
    probabilities: Literal["observed"] | None = Field(
        None, description="What scores are the probability of; null: they are raw scores without a scale."
    )
    explains: bool = Field(description="Whether the method can say which words contribute to a label.")


class ProjectList(BaseModel):
    """All projects."""

    projects: list[ProjectMessage]


class SuggestForm(BaseModel):
    """A text, as Annif's clients send it."""

    model_config = ConfigDict(extra="ignore")
    text: Text
    limit: Limit = 10
    threshold: Threshold = 0.0


class Suggestion(BaseModel):
    """A label."""

    uri: str = Field(description="The identifier of the label.")
    label: str = Field(description="The title of the label.")
    notation: str | None = None
    score: float = Field(description="The probability, or the raw score if the run is not calibrated.")
    margin: float = Field(description="The raw score.")


class SuggestAnswer(BaseModel):
    """The labels of a text, in falling order of score."""

    results: list[Suggestion]
    score: Literal["probability", "score"] = Field(description="What `score` of the results is.")
    no_known_words: bool = Field(description="The text has no word of the vocabulary, so it gets no labels.")


class Document(BaseModel):
    """A text of a batch."""

    document_id: str | None = None
    text: Text


class Batch(BaseModel):
    """Several texts."""

    documents: list[Document]


class BatchAnswer(BaseModel):
    """The labels of a text of a batch."""

    document_id: str | None
    results: list[Suggestion]
    no_known_words: bool


class ExplainRequest(BaseModel):
    """A text and one of its labels."""

    text: Text
    label: str = Field(description="The identifier of the label.")
    limit: Limit = 20


class WordContribution(BaseModel):
    """A word and its part of the raw score."""

    feature: str
    contribution: float


class ExplainAnswer(BaseModel):
    """The raw score of a label: bias + contributions + dense, of all words of the text."""

    uri: str
    label: str
    score: float
    margin: float
    bias: float
    contributions: list[WordContribution] = Field(description="The largest absolute contributions first.")
    dense: float | None = Field(description="The contribution of the dense features together; null without any.")


class LabelMessage(BaseModel):
    """A label and its number of training positives."""

    uri: str
    label: str
    count: int | None


class LabelSearch(BaseModel):
    """Labels that a search found, the most frequent ones first."""

    labels: list[LabelMessage]


class FeatureWeight(BaseModel):
    """A feature and its weight."""

    feature: str
    weight: float


class SimilarLabel(BaseModel):
    """A label with similar weights."""

    uri: str
    label: str
    similarity: float = Field(description="The cosine of the two labels' weights.")


class LabelDetails(LabelMessage):
    """A label, the features with its largest weights, and labels with similar weights."""

    features: list[FeatureWeight]
    neighbors: list[SimilarLabel]


class PredictParameters(BaseModel):
    """Parameters as in Hugging Face's text classification."""

    top_k: Limit = 5
    project: Annotated[str | None, Field(description="A project; by default the first one.")] = None


class PredictRequest(BaseModel):
    """Texts as in Hugging Face's text classification."""

    inputs: str | list[str]
    parameters: PredictParameters = PredictParameters()


class LabelScore(BaseModel):
    """A label as in Hugging Face's text classification."""

    label: str
    score: float


class ReloadAnswer(BaseModel):
    """The projects that were opened again."""

    reloaded: list[str]


class Health(BaseModel):
    """Whether the service is there."""

    status: Literal["ok"] = "ok"
