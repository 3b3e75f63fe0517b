"""Top-k lists, best first, that are kept sorted by insertion."""

from unmissed._jit import kernel


@kernel()
def put(indices, scores, index, score):
    """Insert an index into a top-k list if its score is high enough; ties go to the smaller index."""
    last = indices.shape[0] - 1
    if indices[last] >= 0 and (scores[last] > score or (scores[last] == score and indices[last] < index)):
        return
    position = last
    while position > 0 and (
        indices[position - 1] < 0
        or scores[position - 1] < score
        or (scores[position - 1] == score and indices[position - 1] > index)
    ):
        indices[position] = indices[position - 1]
        scores[position] = scores[position - 1]
        position -= 1
    indices[position] = index
    scores[position] = score


@kernel()
def put_number(best, number):
    """Insert a number above the last one into a descending list; the last one is dropped."""
    position = best.shape[0] - 1
    while position > 0 and best[position - 1] < number:
        best[position] = best[position - 1]
        position -= 1
    best[position] = number


@kernel()
def merge_best(scores, first, labels, best):
    """Merge the scores of the labels first, first + 1, ... into each row's top k; ties go to the smaller label."""
    k = best.shape[1]
    for row in range(scores.shape[0]):
        row_scores, row_labels, row_best = scores[row], labels[row], best[row]
        for at in range(row_scores.shape[0]):
            score = row_scores[at]
            if score <= row_best[k - 1] and row_labels[k - 1] >= 0:
                continue
            put(row_labels, row_best, first + at, score)
