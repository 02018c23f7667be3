"""Why two texts are alike: the shares of their words in the cosine of their vectors."""

from bertfeat.arguments import checked, require_text
from bertfeat.core import Extractor
from bertfeat.search.vectors.faiss_transforms import scale_parts
from bertfeat.search.why import ExplainedText, Explainer, Why


@checked
def explain(extractor: Extractor, query: str, text: str | tuple[str, str]) -> Why:
    """Explain the cosine of two texts in the only column of an extractor: which of their words are alike.

    Both are read with the extractor's prompt; ``text`` may be a pair.

    Raises:
        UsageError: the extractor has several columns, or its vectors are no means of tokens.
    """
    first, second = (text, None) if isinstance(text, str) else text
    explainer = Explainer(extractor.column, extractor.token_settings.words, scale_parts)
    read = ExplainedText(require_text(first, "the text"), second)
    (why,) = explainer.explain(extractor, require_text(query, "the query"), extractor.prompt, [read])
    return why
