import numpy as np
import pytest

from experiments.corpora.written_numbers import TASKS, texts


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("width", [1, 3])
def test_texts_say_their_numbers(task: str, width: int) -> None:
    found = texts(task, 200, width)
    words = np.array(list(found.vocabulary))
    np.testing.assert_array_equal(found.value(found.ids[:, -found.answer :]), found.numbers)
    asked = ["".join(words[row]).split("=") for row in found.ids]
    assert [int(answer) for _, answer in asked] == found.numbers.tolist()
    assert len({question for question, _ in asked}) == 200
    if task != "regression":
        assert all(eval(_plain(question)) == int(answer) for question, answer in asked)
    # Tokens of one digit and of three give the same text.
    np.testing.assert_array_equal(texts(task, 200, 4 - width).numbers, found.numbers)


def _plain(question: str) -> str:
    """Remove leading zeros, which Python does not parse."""
    sign = "+" if "+" in question else "*"
    return sign.join(str(int(part)) for part in question.split(sign))


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    same = np.ones((20, 2), dtype=int), np.ones(20, dtype=int)
    monkeypatch.setitem(TASKS, "same", (lambda *_: same, "+", 3))
    with pytest.raises(ValueError, match="count must leave texts different, got 10 for 'same'"):
        texts("same", 10, 3)
