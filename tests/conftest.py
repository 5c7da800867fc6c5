"""What all tests share: no test asserts a time, so hypothesis has no deadline either."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")
