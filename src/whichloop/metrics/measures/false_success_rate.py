"""Share of the trials that gave a wrong answer as if it were done, spoiled by a fault or a planned call that was not seen."""

from ..measure import Measure
from ..record import Record


def _claimed(record: Record) -> float | None:
    return None if "false_success" in record.unknown else float(record.false_success)


MEASURE = Measure(_claimed, order=15, digits=3, label="false success", is_share=True, is_harm=True, table="troubles")
