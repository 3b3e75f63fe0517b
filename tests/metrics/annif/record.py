"""Record the figures that Annif computes from the files of this folder, in an environment where Annif is installed.

    python tests/metrics/annif/record.py > tests/metrics/annif/figures.json

Annif 1.4.3 reads the vocabulary and the corpus and evaluates at most ten suggestions per document, as `annif eval` does
by default. The tests of this package compare its figures with these; they do not need Annif.
"""

import csv
import json
import sys
from importlib.metadata import version
from pathlib import Path

from annif.corpus import DocumentFileTSV
from annif.eval import EvaluationBatch
from annif.suggestion import SubjectSuggestion, SuggestionBatch
from annif.vocab import SubjectIndexFile, VocabFileTSV

LIMIT = 10
FOLDER = Path(__file__).parent


def main() -> None:
    subjects = SubjectIndexFile()
    subjects.load_subjects(VocabFileTSV(str(FOLDER / "vocabulary.tsv"), "en"))
    truth = [document.subject_set for document in DocumentFileTSV(str(FOLDER / "truth.tsv"), subjects).documents]
    suggested: list[list[SubjectSuggestion]] = [[] for _ in truth]
    with open(FOLDER / "suggestions.tsv") as stream:
        for line in csv.DictReader(stream, delimiter="\t"):
            suggested[int(line["row"])].append(SubjectSuggestion(subjects.by_uri(line["label"]), float(line["score"])))
    batch = EvaluationBatch(subjects)
    batch.evaluate_many(SuggestionBatch.from_sequence(suggested, subjects).filter(limit=LIMIT), truth)
    recorded = {"annif": version("annif"), "limit": LIMIT, "n_subjects": len(subjects), "figures": batch.results()}
    json.dump(recorded, sys.stdout, indent=2, default=float)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
