"""A fast tokenizer for ESM's protein models, which transformers has in Python only, without offsets."""

from tokenizers import AddedToken, Regex, Tokenizer as FastTokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase

_SPECIAL = ("cls_token", "pad_token", "eos_token", "unk_token", "mask_token")


def make_residue_tokenizer(loaded: PreTrainedTokenizerBase) -> FastTokenizer:
    """Make the fast form of an ``EsmTokenizer``: a piece for each character but white space, between <cls> and <eos>.

    Where transformers makes one unknown token of neighboring characters that it does not know, each has its own here.
    """
    vocabulary = loaded.get_vocab()
    fast = FastTokenizer(models.WordLevel(vocabulary, unk_token=loaded.unk_token))
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    # as in transformers, every entry of more than a character is one piece wherever it stands
    fast.add_tokens([AddedToken(token, normalized=False) for token in vocabulary if len(token) > 1])
    fast.add_special_tokens([AddedToken(getattr(loaded, name), normalized=False) for name in _SPECIAL])
    begin, end = loaded.cls_token, loaded.eos_token
    fast.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B {end}",
        special_tokens=[(begin, vocabulary[begin]), (end, vocabulary[end])],
    )
    return fast
