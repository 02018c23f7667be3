"""What pre-training takes from the rooms that train on stored features."""

from bertfeat.tagging import draw_if_possible, hold_result_folder, keep_random_state

__all__ = ["draw_if_possible", "hold_result_folder", "keep_random_state"]
