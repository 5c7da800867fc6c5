"""Forms to fill in from a records system: the answer is a nested JSON object that a schema describes.

Thirteen kinds of form, from an invoice with its lines to a parts list within a parts list. Names and order of fields, enumerations
and codes differ from task to task; every value is looked up, converted or computed with tools, and one wrong leaf makes the whole
answer wrong. No task is without an answer: a schema leaves no room for "not determined". What cannot be known is null.
"""

from .forms import SOURCE, load

SUITE = load

__all__ = ["SOURCE", "SUITE", "load"]
