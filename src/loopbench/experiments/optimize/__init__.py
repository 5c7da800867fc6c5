"""Optimizing each design's prompts on an equal budget, and finding out on locked tasks whether it helped."""
