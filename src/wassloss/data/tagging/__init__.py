"""The paper's tag pipeline: from Flickr's metadata to tags, targets and a ground metric."""

from wassloss.data.tagging.pipeline import yfcc_tags
from wassloss.data.tagging.sample import TagSample
from wassloss.data.tagging.stop_words import STOP_WORDS

__all__ = ["STOP_WORDS", "TagSample", "yfcc_tags"]
