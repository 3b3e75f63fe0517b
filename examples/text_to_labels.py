"""From texts to labels: train on a few tagged texts, suggest labels for a new one, keep the model."""

import json
from pathlib import Path

from unmissed import load, open_run
from unmissed.runs import train

TEXTS = [
    ("Cod and herring are caught with nets in the North Sea", ["fishing", "sea"]),
    ("New quota for cod and mackerel this season", ["fishing", "law"]),
    ("The court heard an appeal about the quota", ["law"]),
    ("A judge decided the appeal after a long hearing", ["law"]),
    ("Fresh bread, butter and cheese for breakfast", ["food"]),
    ("How to bake bread with milk and honey", ["food", "recipes"]),
    ("Grilled mackerel with butter: a recipe", ["food", "recipes", "fishing"]),
    ("Cheese soup, a recipe for cold evenings", ["food", "recipes"]),
]


def main() -> None:
    # A file with one JSON object per line: a text and its labels. CSV, Parquet and other formats work, too.
    lines = (json.dumps({"text": text, "labels": labels}) for text, labels in TEXTS)
    Path("texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = load("texts.jsonl")
    print(f"{data.n_samples} texts, {data.n_labels} labels, {data.n_features} words")

    # A run is a folder with everything that prediction needs. A training that was stopped resumes.
    train("pw-dismec", data, "tags")
    for label, score in open_run("tags").suggest("A recipe for bread with cheese", k=2):
        print(f"{label}: {score:.2f}")


if __name__ == "__main__":
    main()
