"""The digest that identifies features."""

from hashlib import sha256

from bertfeat.features import FeatureSet


def parts_digest(features: FeatureSet) -> str:
    """The digest of a feature set's parts: of every value in it."""
    return sha256("".join(entry.sha256 for entry in features.entries).encode()).hexdigest()
