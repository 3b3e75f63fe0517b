"""Short lists of the best, best first, into which candidates are put one by one."""

from unmissed._jit import kernel


@kernel()
def put(names, scores, name, score):
    """Put a name into a list of the best, best first, if it belongs there; among equals the smaller name leads."""
    last = names.shape[0] - 1
    if names[last] >= 0 and (scores[last] > score or (scores[last] == score and names[last] < name)):
        return
    place = last
    while place > 0 and (
        names[place - 1] < 0 or scores[place - 1] < score or (scores[place - 1] == score and names[place - 1] > name)
    ):
        names[place] = names[place - 1]
        scores[place] = scores[place - 1]
        place -= 1
    names[place] = name
    scores[place] = score


@kernel()
def put_number(best, number):
    """Put a number that is above the last of a falling list into it; the last drops out."""
    place = best.shape[0] - 1
    while place > 0 and best[place - 1] < number:
        best[place] = best[place - 1]
        place -= 1
    best[place] = number
