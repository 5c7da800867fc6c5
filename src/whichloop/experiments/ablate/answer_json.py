"""What an ablation answers as plain JSON: which setting to use, in words, and what each setting costs."""

from __future__ import annotations

from typing import Any

from whichloop.experiments.compare.verdict.answer_json import answer_json
from whichloop.protocol.names import value_text

from .ablation import AblationResult
from .recommendation import recommendation, said_of


def ablation_answer_json(result: AblationResult) -> dict[str, Any]:
    """Return the answer under the names of a comparison's, where `loops` are the settings; `choices`: the value of each factor.

    `recommendation` is the sentence that says which setting to use; None where nothing is recommended. Costs are means
    over profiles, in `unit`.
    """
    compared, recommended = answer_json(result.results.comparison), recommendation(result)
    sentences = said_of(result, recommended)
    chosen = () if recommended is None else recommended.sentences
    choices = {} if recommended is None else {choice.factor: choice.value for choice in recommended.choices}
    own = {name: value_text(value) for name, value in result.ablation.own.items()}
    return compared | {
        "recommendation": next((each.in_full for each in chosen if not each.is_basis), None),
        "sentences": [each.in_full for each in sentences],
        "choices": [{"factor": name, "value": value, "own": own.get(name)} for name, value in choices.items()],
    }
