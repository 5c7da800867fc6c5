"""One file per scorer, found by its name; its docstring's first line is what `whichloop list metrics` says.

A file offers `SCORER`: a function that takes the scorer's options as keywords and returns a `Scorer`. Where the scorer looks at the
end state, the file also says `READS_STATE = True`. Every built-in scorer but `bfcl`, which judges calls, compares by the rule of
`answers.answer_scorer`. No built-in scorer raises for an answer, whatever it is.
"""

from ..abstention import is_abstention
from ..scoring import reads_state, scorer_named, scorer_names, scores_of

__all__ = ["is_abstention", "reads_state", "scorer_named", "scorer_names", "scores_of"]
