"""What a verdict under measured profiles rests on, in words: on means that few models make, and on the form of calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from loopbench.metrics.arm_info import ArmInfo
from loopbench.metrics.comparison import Comparison, Pair
from loopbench.metrics.summary import PRIMARY
from loopbench.models.evidence import faults_of_few_models, other_estimate
from loopbench.protocol.names import Spec
from loopbench.runs.built_in import form_option, has_option
from loopbench.text.counts import listed
from loopbench.text.numbers import interval, short_name

from .measured_forms import estimated_twice
from .sentence import AnswerSentence

NATIVE = "native"
MAX_KINDS = 2
"""Kinds of fault that are told of a profile, and of what the form of calls makes."""
LEAST_TOLD = 0.005
"""Least share that a kind of fault makes, for it to be told."""
FENCED, FENCES = "wire.fenced", "fences"
"""A kind of fault, and the option by which a loop reads such replies."""


def basis(comparison: Comparison, shown: Collection[str] = ()) -> Iterator[AnswerSentence]:
    """Yield what stands before the verdict on several loops, or settings; nothing under profiles that were not measured.

    `shown`: profiles under which effects show a difference, beside those whose pairs do.
    """
    infos = [arm.info for arm in comparison.arms]
    twice = estimated_twice(infos)
    for means, medians in twice:
        said = f"{means} holds means over models and {medians} medians"
        estimates = "two estimates of one thing, each judged by itself"
        yield AnswerSentence(f"{said}: {estimates}", f"{said}: each is judged by itself", is_basis=True)
    decided = {arm for pair in comparison.pairs if _is_decided(pair) for arm in (pair.a, pair.b)}
    told = {means for means, _ in twice}
    weighed = [info for info in infos if info.arm in decided or info.profile in shown]
    yield from _of_few_models([info for info in weighed if info.profile not in told])
    for profile in dict.fromkeys(info.profile for info in infos if info.met):
        yield from _OneColumn(comparison, profile).told()


def _is_decided(pair: Pair) -> bool:
    """Whether one of two arms is shown to be more accurate."""
    return pair.metric == PRIMARY and pair.verdict.word in ("better", "worse")


def _of_few_models(infos: Sequence[ArmInfo]) -> Iterator[AnswerSentence]:
    """Yield for each profile of means what few of its models do, and which profile tells what the median model does."""
    for profile in dict.fromkeys(info.profile for info in infos if info.model == "scripted"):
        met = dict.fromkeys(info.met or profile for info in infos if info.profile == profile)
        found = [(name, fault) for name in met for fault in faults_of_few_models(name)]
        if not found:
            continue
        shares = [
            f"{fault.kind} {100 * fault.mean:.2g} % of replies on average, {100 * fault.median:.2g} % at the median"
            for _, fault in found[:MAX_KINDS]
        ]
        add = f"add --profile {other_estimate(profile)}"
        names = listed(list(dict.fromkeys(name for name, _ in found)))
        said = f"{profile} holds means over models, and some of its rates come from few of them ({names}: {'; '.join(shares)})"
        brief = f"{profile} holds means, some of them from few models ({shares[0]})"
        yield AnswerSentence(f"{said}: {add} to see what holds for the median model", f"{brief}: {add}", is_basis=True)


class _OneColumn:
    """A profile that is another one for each form of calls, and what tells the loops' forms from the loops."""

    def __init__(self, comparison: Comparison, profile: str) -> None:
        self.profile = profile
        self.infos = {arm.info.arm: arm.info for arm in comparison.arms if arm.info.profile == profile}
        self.lost = {arm.info.arm: arm.summary.lost_to for arm in comparison.arms}
        self.pairs = [p for p in comparison.pairs if p.metric == PRIMARY and {p.a, p.b} <= set(self.infos)]

    def told(self) -> Iterator[AnswerSentence]:
        """Yield what the form of calls may do to a difference that is shown, or what an arm in another form shows of it."""
        apart = [pair for pair in self.pairs if self._forms(pair) == 2 and _is_decided(pair)]
        if not apart:
            return
        same = [p if self.infos[p.a].calls_in == NATIVE else p.turned for p in self.pairs if self._is_one_loop(p)]
        if same:
            yield from (self._shown(pair) for pair in same)
            return
        names = list(dict.fromkeys(short_name(self.infos[arm]) for p in apart for arm in (p.a, p.b)))
        command = self._command(apart)
        tells = "; this tells it apart" if command else ""
        said = f"Under {self.profile} {listed(names)} write their calls in different forms, which may be what differs, not the loop"
        brief = f"The form of calls may be what differs, not the loop{tells}"
        yield AnswerSentence(f"{said}{tells}", brief, command=command, is_basis=True)

    def _forms(self, pair: Pair) -> int:
        return len({self.infos[pair.a].calls_in, self.infos[pair.b].calls_in})

    def _is_one_loop(self, pair: Pair) -> bool:
        """Whether two arms are one loop in two forms, all else alike."""
        a, b = self.infos[pair.a], self.infos[pair.b]
        option, _ = form_option(a.loop)
        is_alike = a.loop == b.loop and _without(a, option, FENCES) == _without(b, option, FENCES)  # native calls have no fence
        return is_alike and bool(option) and self._forms(pair) == 2

    def _shown(self, pair: Pair) -> AnswerSentence:
        """Return what one loop in two forms shows. `pair`: the loop with native calls first."""
        native, text = (short_name(self.infos[arm]) for arm in (pair.a, pair.b))
        makes = f"the form of calls alone makes {interval(pair.difference, 3)} ({native} minus {text})"
        form = f"Under {self.profile} {makes}{self._lost_to(pair)}"
        rivals = [p if p.b == pair.a else p.turned for p in self.pairs if pair.a in (p.a, p.b) and self._forms(p) == 1]
        if not rivals:
            return AnswerSentence(form, is_basis=True)
        best = max(rivals, key=lambda rival: rival.difference.value)
        what = "another setting" if self.infos[best.a].loop == self.infos[pair.a].loop else "the loop"
        other = f"{what} {interval(best.difference, 3)} ({short_name(self.infos[best.a])} minus {native})"
        return AnswerSentence(f"{form}, and {other}", is_basis=True)

    def _lost_to(self, pair: Pair) -> str:
        """Return `, of which 0.121 lost to fenced replies`: what text lost to each kind of fault more than native calls did."""
        native, text = self.lost[pair.a], self.lost[pair.b]
        gaps = {kind: share - native.get(kind, 0.0) for kind, share in text.items()}
        largest = sorted((kind for kind in gaps if kind and gaps[kind] >= LEAST_TOLD), key=lambda kind: -gaps[kind])
        if pair.difference.value <= 0 or not largest:
            return ""
        return (
            f", of which text lost {listed([f'{gaps[kind]:.3f} to {self._replies(kind, pair)}' for kind in largest[:MAX_KINDS]])}"
        )

    def _replies(self, kind: str, pair: Pair) -> str:
        """Return `fenced replies` for `wire.fenced`, and who reads them; other kinds than those of replies by their names."""
        family, _, what = kind.partition(".")
        info = self.infos[pair.b]
        is_refused = kind == FENCED and has_option(info.loop, FENCES) and FENCES not in info.options
        cure = (
            f" (refused by {short_name(info)}, read by {Spec(info.loop, {**info.options, FENCES: 'read'})})" if is_refused else ""
        )
        return f"{what} replies{cure}" if family == "wire" else kind

    def _command(self, apart: Sequence[Pair]) -> tuple[str, ...]:
        """Return the command that compares the forms of one of the loops; none where no built-in loop of them has both."""
        for info in (self.infos[arm] for pair in apart for arm in (pair.a, pair.b)):
            option, default = form_option(info.loop)
            if option and info.calls_in != NATIVE:
                loop = str(Spec(info.loop, _without(info, option)))
                values = f"{option}={info.options.get(option, default)},{NATIVE}"
                return ("loopbench", "ablate", loop, "--factor", values, "--profile", self.profile)
        return ()


def _without(info: ArmInfo, *options: str) -> dict[str, object]:
    return {name: value for name, value in info.options.items() if name not in options}
