"""Which tokens are numbers, in the spellings of real tokenizers."""

import math
import re
from typing import Any

import pytest
import torch

from wassloss.language.vocabulary import number_tokens


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
    ids, values = number_tokens({"word": 0, token: 5})
    assert ids.tolist() == [5]
    assert values.tolist() == pytest.approx([value])


@pytest.mark.parametrize(
    "token",
    ["", ".", "-", "Ġ", "▁", "banana", "1st", "x7", "<0x41>", "1e5", "1,000", "²", "٣", "inf",
     "nan", "<unk>", "ĠĠ7", "1.2.3", "--1", "1 2", "1_000", "7\n"],
)  # fmt: skip
def test_no_number(token: str) -> None:
    assert number_tokens({token: 0, "4": 1})[0].tolist() == [1]


def test_tokens_may_be_bytes() -> None:
    _, values = number_tokens({b"12": 3, b" 7": 1, b"\xff": 0, b".": 2})
    assert values.tolist() == [7, 12]


def test_a_tokenizer_and_its_values_are_the_same() -> None:
    by_text = number_tokens(Tokenizer("a", "10", "b", "Ġ3"))
    by_value = number_tokens(torch.tensor([math.nan, 10.0, math.nan, 3.0]))
    assert [found.tolist() for found in by_text] == [[1, 3], [10, 3]]
    assert [found.tolist() for found in by_value] == [[1, 3], [10, 3]]


CORPUS = [f"{a} + {b} = {a + b}, or -{b}.{a:02} of 0.5" for a in range(100) for b in range(9)]


def trained(kind: str) -> Any:
    """A tokenizer as the library `tokenizers` trains it on the corpus."""
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
    values = dict(zip(*(found.tolist() for found in number_tokens(tokenizer)), strict=True))
    texts = {i: token.lstrip("Ġ▁#") for token, i in tokenizer.get_vocab().items()}
    numbers = {i: float(text) for i, text in texts.items() if re.search("[0-9]", text)}
    assert values == pytest.approx(numbers)
    assert {7.0, 42.0} <= set(values.values())
    ids = tokenizer.encode("7 + 42 = 49, or").ids
    assert "".join(texts[i] for i in ids if i in values) == "74249"


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
