"""What answers say that belong to no sample: the share of accepted labels, by stated probability and by frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from unmissed.audit.accepted_shares import AcceptedShare, accepted_share
from unmissed.audit.answers import Answer, Verdict
from unmissed.audit.audit_estimates import Agreement, CellAnswers, agreement_of
from unmissed.audit.sampling import frequency_bands
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.runs.run import Run

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_N_BINS = 10
_N_BANDS = 3
NO_PROPENSITIES = (
    "these answers belong to no plan: propensities cannot be estimated from them, since nobody knows how the questions "
    "were chosen. The shares hold for questions chosen in the same way (unmissed audit plan draws a sample)"
)


@dataclass(frozen=True, eq=False)
class AnswerSummary:
    """What answers without a plan say.

    Parameters
    ----------
    overall : all decided questions; None if there are none
    by_probability, by_frequency : decided questions with a stated probability, and those with a label of the run
    n_answers, n_questions : answers, and distinct pairs of document and label
    n_unsure, n_tied : questions with "unsure" only, and those with as many yes as no; neither is decided
    n_without_probability : decided questions without a stated probability
    unknown_labels : labels that the run does not have, with their numbers of answers, most answers first
    agreement : None if no question has several answers
    """

    overall: AcceptedShare | None
    by_probability: list[AcceptedShare]
    by_frequency: list[AcceptedShare]
    n_answers: int
    n_questions: int
    n_unsure: int
    n_tied: int
    n_without_probability: int
    unknown_labels: dict[str, int]
    agreement: Agreement | None

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before the shares are used."""
        found = [NO_PROPENSITIES]
        if self.n_unsure:
            found.append(f'{self.n_unsure:,} questions have the answer "unsure" only; they count as not asked')
        if self.n_tied:
            found.append(f"{self.n_tied:,} questions have as many yes as no; they count as not asked")
        if self.unknown_labels:
            names = ", ".join(repr(name[:40]) for name in list(self.unknown_labels)[:5])
            more = ", ..." if len(self.unknown_labels) > 5 else ""
            n_answers = sum(self.unknown_labels.values())
            found.append(
                f"{n_answers:,} answers are to {len(self.unknown_labels):,} labels that the run does not have "
                f"({names}{more}); they have no frequency"
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        lists = {name: [one._asdict() for one in getattr(self, name)] for name in ("by_probability", "by_frequency")}
        single = {
            name: None if value is None else value._asdict()
            for name, value in (("overall", self.overall), ("agreement", self.agreement))
        }
        return {**asdict(self), **lists, **single, "warnings": self.warnings}


def summarize_answers(run: Run, answers: Sequence[Answer]) -> AnswerSummary:
    """Return how many labels people accepted, for answers to any documents, such as those of a service.

    A label is accepted if more answers to it say yes than no. Intervals take questions as independent.

    Parameters
    ----------
    run : the run whose labels were shown; it has the training rows of each label
    answers : the answers of people
    """
    if not answers:
        raise InputError("there are no answers; fill in the answers first")
    cells: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        cells.setdefault((answer.row, answer.label), []).append(answer)
    counts = CellAnswers(*_count(list(cells.values())))
    tied = counts.decided & (counts.yes == counts.no)
    questions = _Questions(counts.yes > counts.no, counts.decided & ~tied, _stated(list(cells.values())))
    known = index_names(run.label_names if run.label_names is not None else map(str, range(run.n_labels)))
    numbers = np.array([find_name(known, label) for _, label in cells], dtype=np.int64)
    unknown = Counter(answer.label for answer in answers if find_name(known, answer.label) < 0)
    decided = questions.decided
    return AnswerSummary(
        questions.share(decided, 0.0, 1.0) if decided.any() else None,
        _by_probability(questions),
        _by_frequency(run, questions, numbers),
        len(answers),
        len(cells),
        int(counts.only_unsure.sum()),
        int(tied.sum()),
        int((decided & np.isnan(questions.stated)).sum()),
        dict(unknown.most_common()),
        agreement_of(counts),
    )


class _Questions(NamedTuple):
    """Distinct questions: whether each is accepted, whether it is decided, and its stated probability or NaN."""

    accepted: Mask
    decided: Mask
    stated: Floats

    def share(self, chosen: Mask, low: float, high: float) -> AcceptedShare:
        """Return the share of accepted questions among chosen ones, which are decided."""
        return accepted_share(low, high, self.accepted[chosen], self.stated[chosen])


def _count(cells: Sequence[Sequence[Answer]]) -> list[Integers]:
    """Return the number of yes, no and unsure of each question."""
    return [
        np.array([sum(one.verdict == verdict for one in cell) for cell in cells], dtype=np.int64)
        for verdict in get_args(Verdict)
    ]


def _stated(cells: Sequence[Sequence[Answer]]) -> Floats:
    """Return the mean stated probability of each question; NaN if none was stated."""
    stated = [[one.probability for one in cell if one.probability is not None] for cell in cells]
    return np.array([np.mean(one) if one else np.nan for one in stated], dtype=np.float64)


def _by_probability(questions: _Questions) -> list[AcceptedShare]:
    bins = np.minimum((np.nan_to_num(questions.stated, nan=-1.0) * _N_BINS).astype(np.int64), _N_BINS - 1)
    usable = questions.decided & ~np.isnan(questions.stated)
    return [questions.share(usable & (bins == at), at / _N_BINS, (at + 1) / _N_BINS) for at in np.unique(bins[usable])]


def _by_frequency(run: Run, questions: _Questions, labels: Integers) -> list[AcceptedShare]:
    counts = run.label_counts
    usable = questions.decided & (labels >= 0)
    if counts is None or not usable.any():
        return []
    bands = frequency_bands(counts, _N_BANDS)
    found = []
    for at in np.unique(bands[labels[usable]]):
        inside = counts[bands == at]
        chosen = usable & (bands[labels] == at)  # labels below 0 are not usable
        found.append(questions.share(chosen, float(inside.min()), float(inside.max())))
    return found
