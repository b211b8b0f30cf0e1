"""Recognition of number tokens, in the spellings of real tokenizers."""

import math
import re
from typing import Any

import pytest
import torch

from wassloss.language.vocabulary import number_tokens, places


class Tokenizer:
    def __init__(self, *tokens: str) -> None:
        self.tokens = tokens

    def get_vocab(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("7", 7.0),
        ("2018", 2018.0),
        ("007", 7.0),
        ("Ġ42", 42.0),  # GPT-2
        ("▁42", 42.0),  # SentencePiece: T5, Llama
        (" 42", 42.0),  # decoded, as from tiktoken
        ("##12", 12.0),  # BERT
        ("<0x37>", 7.0),  # byte fallback
        ("-3", -3.0),
        ("−3", -3.0),
        ("▁+3", 3.0),
        ("3.14", 3.14),
        (".5", 0.5),
        ("Ġ-2.5", -2.5),
    ],
)
def test_a_number(token: str, value: float) -> None:
    found = number_tokens({"word": 0, token: 5})
    assert found.ids.tolist() == [5]
    assert found.values.tolist() == pytest.approx([value])


@pytest.mark.parametrize(
    "token",
    ["", ".", "-", "Ġ", "▁", "banana", "1st", "x7", "<0x41>", "1e5", "1,000", "²", "٣", "inf",
     "nan", "<unk>", "ĠĠ7", "1.2.3", "--1", "1 2", "1_000", "7\n"],
)  # fmt: skip
def test_no_number(token: str) -> None:
    assert number_tokens({token: 0, "4": 1}).ids.tolist() == [1]


def test_tokens_may_be_bytes() -> None:
    found = number_tokens({b"12": 3, b" 7": 1, b"\xff": 0, b".": 2})
    assert found.values.tolist() == [7, 12]


def test_a_tokenizer_and_its_values_are_the_same() -> None:
    by_text = number_tokens(Tokenizer("a", "10", "b", "Ġ3"))
    by_value = number_tokens(torch.tensor([math.nan, 10.0, math.nan, 3.0]))
    assert by_text.ids.tolist() == by_value.ids.tolist() == [1, 3]
    assert by_text.values.tolist() == by_value.values.tolist() == [10, 3]


CORPUS = [f"{a} + {b} = {a + b}, or -{b}.{a:02} of 0.5" for a in range(100) for b in range(9)]


def trained(kind: str) -> Any:
    """A tokenizer trained on the corpus by the library `tokenizers`."""
    library = pytest.importorskip("tokenizers")
    words, unknown = library.pre_tokenizers, {"special_tokens": ["?"]}
    model, before, keywords = {
        "Bpe": (library.models.BPE(), words.ByteLevel(add_prefix_space=False), {}),
        "WordPiece": (library.models.WordPiece(unk_token="?"), words.Whitespace(), unknown),
        "Unigram": (library.models.Unigram(), words.Metaspace(), {**unknown, "unk_token": "?"}),
    }[kind]
    tokenizer, trainer = library.Tokenizer(model), getattr(library.trainers, f"{kind}Trainer")
    tokenizer.pre_tokenizer = before
    tokenizer.train_from_iterator(CORPUS, trainer(vocab_size=300, show_progress=False, **keywords))
    return tokenizer


@pytest.mark.parametrize("kind", ["Bpe", "WordPiece", "Unigram"])
def test_numbers_of_trained_tokenizers(kind: str) -> None:
    tokenizer = trained(kind)
    found = number_tokens(tokenizer)
    values = dict(zip(found.ids.tolist(), found.values.tolist(), strict=True))
    texts = {i: token.lstrip("Ġ▁#") for token, i in tokenizer.get_vocab().items()}
    numbers = {i: float(text) for i, text in texts.items() if re.search("[0-9]", text)}
    assert values == pytest.approx(numbers)
    assert {7.0, 42.0} <= set(values.values())
    ids = tokenizer.encode("7 + 42 = 49, or").ids
    assert "".join(texts[i] for i in ids if i in values) == "74249"


TOKENS = ("banana", *map(str, range(10)), ".", "Ġ7", "-4", "23", "456", "1.25")


def _placed(*tokens: str) -> tuple[list[int], list[int]]:
    """Places of number labels, and those of the first digit of their numbers."""
    found = number_tokens(Tokenizer(*TOKENS))
    ids = torch.tensor([[TOKENS.index(token) for token in tokens]])
    place, first = places(ids, found.written)
    number = [token not in ("banana", ".") for token in tokens]
    return place[number].tolist(), first[number].tolist()


@pytest.mark.parametrize(
    ("tokens", "expected", "first"),
    [
        ("7", [0], [0]),
        ("3 1 4", [2, 1, 0], [2, 2, 2]),
        ("3 1 4 . 1 5", [2, 1, 0, -1, -2], [2] * 5),
        ("1 banana 2 0", [0, 1, 0], [0, 1, 1]),
        ("1 2 Ġ7", [1, 0, 0], [1, 1, 0]),  # a space starts a number
        ("1 2 -4 5", [1, 0, 1, 0], [1, 1, 1, 1]),  # and so does a sign
        ("23 456", [3, 0], [4, 4]),  # tokens of several digits: 23 thousands, 456
        ("456 . 23", [0, -2], [2, 2]),
        ("5 1.25 6", [1, 0, -3], [1, 1, 1]),  # 51.256
        ("banana . 5", [-1], [-1]),
        ("1 2 . banana 3", [1, 0, 0], [1, 1, 0]),  # the end of a sentence
        ("1 . 2 . 3", [0, -1, -2], [0, 0, 0]),  # of two points the first counts
    ],
)
def test_places_in_a_number(tokens: str, expected: list[int], first: list[int]) -> None:
    assert _placed(*tokens.split()) == (expected, first)


def test_numbers_end_with_their_sequence_and_at_ignored_labels() -> None:
    written = number_tokens(Tokenizer(*TOKENS)).written
    one, two = TOKENS.index("1"), TOKENS.index("2")
    ids = torch.tensor([[one, two], [two, one], [one, -100]])
    place, first = places(ids, written)
    assert place[:5].tolist() == [1, 0, 1, 0, 0]
    assert first[:5].tolist() == [1, 1, 1, 1, 0]


def test_refused() -> None:
    with pytest.raises(TypeError, match=r"tokenizer must have get_vocab\(\).*got int"):
        number_tokens(7)
    with pytest.raises(ValueError, match="tokenizer must have tokens that are numbers, got none"):
        number_tokens({"a": 0})
    with pytest.raises(ValueError, match="tokenizer must have ids of at least 0, got -1 for '7'"):
        number_tokens({"7": -1})
    for wrong in (torch.tensor([1, 2]), torch.zeros(2, 2), torch.tensor([math.inf, 1.0]),
                  torch.tensor([math.nan])):  # fmt: skip
        with pytest.raises(ValueError, match="tokenizer, as values, must be a floating tensor"):
            number_tokens(wrong)
