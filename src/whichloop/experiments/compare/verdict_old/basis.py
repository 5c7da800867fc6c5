"""What a verdict under measured profiles rests on, in words: on means that few models make, and on the form of calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import NO_SPREAD
from whichloop.metrics.summary import PRIMARY
from whichloop.models.evidence import faults_of_few_models, other_estimate
from whichloop.protocol.names import SCRIPTED, Spec
from whichloop.runs.built_in import form_option, has_option
from whichloop.text.numbers import difference_text, listed_names, short_name

from ..measured_forms import estimated_twice
from .claims import RATE
from .sentence import AnswerSentence

FENCED = "wire.fenced"
FENCES, REFUSED, READ = "fences", "refuse", "read"
"""The option, its default, and the value with which such replies are read."""


NATIVE = "native"
MAX_KINDS = 2
"""Kinds of fault that are told of a profile, and of what the form of calls makes."""
LEAST_TOLD = 0.005
"""Least share that a kind of fault makes, for it to be told."""


def basis(comparison: Comparison, shown_profiles: Collection[str] = ()) -> Iterator[AnswerSentence]:
    """Yield what stands before the verdict on several loops, or settings; nothing under profiles that were not measured.

    `shown_profiles`: profiles under which effects show a difference, beside those whose pairs do.
    """
    infos = [arm.info for arm in comparison.arms]
    twice = estimated_twice(infos)
    for means, medians in twice:
        sentence = f"{means} holds means over models and {medians} medians"
        estimates = "two estimates of one thing, each judged by itself"
        yield AnswerSentence(f"{sentence}: {estimates}", may_be_left_out=True, is_basis=True)  # each verdict names its profile
    decided = {arm for pair in comparison.pairs if _is_decided(pair, comparison.alpha) for arm in (pair.a, pair.b)}
    profiles_of_means = {means for means, _ in twice}
    weighed = [info for info in infos if info.arm in decided or info.profile in shown_profiles]
    yield from _of_few_models([info for info in weighed if info.profile not in profiles_of_means])
    for profile in dict.fromkeys(info.profile for info in infos if info.met):
        yield from _OneColumn(comparison, profile).sentences()


def _is_decided(pair: Pair, alpha: float) -> bool:
    """Whether one of two arms is shown to be more accurate, be it only of the run's own few tasks."""
    return pair.metric == PRIMARY and (pair.verdict.word in ("better", "worse") or _is_told_within(pair, alpha))


def _is_told_within(pair: Pair, alpha: float) -> bool:
    """Whether repeats of the run's own few tasks tell two arms apart."""
    return pair.within is not None and pair.within.is_apart(alpha)


def _of_few_models(infos: Sequence[ArmInfo]) -> Iterator[AnswerSentence]:
    """Yield for each profile of means what few of its models do, and which profile tells what the median model does."""
    for profile in dict.fromkeys(info.profile for info in infos if info.model == SCRIPTED):
        met_profiles = dict.fromkeys(info.met or profile for info in infos if info.profile == profile)
        rates = [(name, fault) for name in met_profiles for fault in faults_of_few_models(name)]
        if not rates:
            continue
        shares = [
            f"{fault.kind} {100 * fault.mean:.2g} % of replies on average, {100 * fault.median:.2g} % at the median"
            for _, fault in rates[:MAX_KINDS]
        ]
        add = f"add --profile {other_estimate(profile)}"
        names = listed_names(list(dict.fromkeys(name for name, _ in rates)))
        sentence = f"{profile} holds means over models, and some of its rates come from few of them ({names}: {'; '.join(shares)})"
        brief = f"{profile} holds means, some of them from few models ({shares[0]})"
        yield AnswerSentence(f"{sentence}: {add} to see what holds for the median model", f"{brief}: {add}", is_basis=True)


class _OneColumn:
    """A profile that is another one for each form of calls, and what tells the loops' forms from the loops."""

    def __init__(self, comparison: Comparison, profile: str) -> None:
        self.profile = profile
        self.alpha = comparison.alpha
        self.infos = {arm.info.arm: arm.info for arm in comparison.arms if arm.info.profile == profile}
        self.lost = {arm.info.arm: arm.summary.lost_to for arm in comparison.arms}
        own = [p for p in comparison.pairs if {p.a, p.b} <= set(self.infos)]
        self.pairs = [p for p in own if p.metric == PRIMARY]
        self.wrong = {frozenset((p.a, p.b)) for p in own if p.metric == RATE and p.verdict.word in ("better", "worse")}

    def sentences(self) -> Iterator[AnswerSentence]:
        """Yield what the form of calls may do to a difference that is shown, or what an arm in another form shows of it."""
        apart = [pair for pair in self.pairs if self._forms(pair) == 2 and self._is_claimed(pair)]
        if not apart:
            return
        if forms := self._by_native():
            yield from (self._shown(native, texts) for native, texts in forms.items())
            return
        names = list(dict.fromkeys(short_name(self.infos[arm]) for p in apart for arm in (p.a, p.b)))
        command = self._command(apart)
        tells = "; to tell form and loop apart" if command else ""
        all_names = listed_names(names)
        sentence = f"Under {self.profile} {all_names} write their calls in different forms, which may be what differs, not the loop"
        brief = f"Under {self.profile} the form of calls may be what differs, not the loop{tells}"
        yield AnswerSentence(f"{sentence}{tells}", brief, command=command, is_basis=True)

    def _is_claimed(self, pair: Pair) -> bool:
        """Whether two arms are shown to differ in accuracy or in wrong answers given as done, or to be equivalent."""
        return pair.verdict.word != "undecided" or _is_told_within(pair, self.alpha) or frozenset((pair.a, pair.b)) in self.wrong

    def _forms(self, pair: Pair) -> int:
        return len({self.infos[pair.a].calls_in, self.infos[pair.b].calls_in})

    def _is_one_loop(self, pair: Pair) -> bool:
        """Whether two arms are one loop in two forms, all else alike."""
        a, b = self.infos[pair.a], self.infos[pair.b]
        option, _ = form_option(a.loop)
        is_alike = a.loop == b.loop and _without(a, option, FENCES) == _without(b, option, FENCES)  # native calls have no fence
        return is_alike and bool(option) and self._forms(pair) == 2

    def _by_native(self) -> dict[str, list[Pair]]:
        """Return arm with native calls → it minus the same loop with calls in text, the one that refuses fences first."""
        pairs_by_native: dict[str, list[Pair]] = {}
        for pair in filter(self._is_one_loop, self.pairs):
            turned = pair if self.infos[pair.a].calls_in == NATIVE else pair.turned
            pairs_by_native.setdefault(turned.a, []).append(turned)
        return {native: sorted(own, key=lambda pair: self._reads_fences(pair.b)) for native, own in pairs_by_native.items()}

    def _reads_fences(self, arm: str) -> bool:
        return self.infos[arm].options.get(FENCES) == READ

    def _shown(self, native: str, texts: Sequence[Pair]) -> AnswerSentence:
        """Return what one loop in two forms shows, the whole and its parts. `texts`: the arm with native calls minus each other."""
        whole = texts[0]
        form = f"Under {self.profile} the form of calls alone makes {self._minus(whole)}"
        full, brief = self._two_arms(texts) or (self._by_fault(whole), self._by_fault(whole))
        rivals = [p if p.b == native else p.turned for p in self.pairs if native in (p.a, p.b) and self._forms(p) == 1]
        if not rivals:
            return AnswerSentence(f"{form}{full}", f"{form}{brief}", is_basis=True)
        best = max(rivals, key=lambda rival: rival.difference.value)
        what = "another setting" if self.infos[best.a].loop == self.infos[native].loop else "the loop"
        other = f"; {what} makes {self._minus(best)}"
        return AnswerSentence(f"{form}{full}{other}", f"{form}{brief}{other}", is_basis=True)

    def _minus(self, pair: Pair) -> str:
        """Return `0.183 [0.070, 0.303] (bare(decision_format=native) minus bare)`."""
        return f"{difference_text(pair.difference, 3)} ({self._names(pair)})"

    def _two_arms(self, texts: Sequence[Pair]) -> tuple[str, str] | None:
        """Return in which two parts the arm that reads fenced replies splits the whole, and the same in few words.

        None where no such arm is in the run, or where tasks are missing, so that the parts would not make the whole.
        """
        whole, rest = texts[0], texts[-1]
        if self._reads_fences(whole.b) or not self._reads_fences(rest.b):
            return None
        fences = next((turned for p in self.pairs for turned in (p, p.turned) if (turned.a, turned.b) == (rest.b, whole.b)), None)
        if fences is None or abs(fences.difference.value + rest.difference.value - whole.difference.value) > NO_SPREAD:
            return None
        reads = f"reading fenced replies {difference_text(fences.difference, 3)}"
        full = f", the sum of two parts: {reads} ({self._names(fences)}), and all else {self._minus(rest)}"
        brief = f": {reads} ({self._names(fences)}) and all else {difference_text(rest.difference, 3)}"
        return full, brief

    def _names(self, pair: Pair) -> str:
        return f"{short_name(self.infos[pair.a])} minus {short_name(self.infos[pair.b])}"

    def _by_fault(self, pair: Pair) -> str:
        """Return what text lost more than native calls by kind of fault, and all else, which together make the whole."""
        native, text = self.lost[pair.a], self.lost[pair.b]
        gaps = {kind: share - native.get(kind, 0.0) for kind, share in text.items()}
        largest = sorted((kind for kind in gaps if kind and gaps[kind] >= LEAST_TOLD), key=lambda kind: -gaps[kind])[:MAX_KINDS]
        if pair.difference.value <= 0 or not largest:
            return ""
        parts = [f"{gaps[kind]:.3f} in trials with {self._replies(kind, pair)}" for kind in largest]
        rest = round(pair.difference.value, 3) - sum(round(gaps[kind], 3) for kind in largest)  # what is written adds up
        return f", the sum of what calls in text lost more: {listed_names([*parts, f'{rest:z.3f} in others'])}"

    def _replies(self, kind: str, pair: Pair) -> str:
        """Return `fenced replies` for `wire.fenced`, and which loop shows what reading them gains; other kinds as named."""
        family, _, what = kind.partition(".")
        info = self.infos[pair.b]
        is_refused = kind == FENCED and has_option(info.loop, FENCES) and FENCES not in info.options
        reads = str(Spec(info.loop, {**info.options, FENCES: READ}))
        is_here = any(short_name(each) == reads for each in self.infos.values())
        cure = f" (what reading them gains, a run with {reads} tells)" if is_refused and not is_here else ""
        return f"{what} replies{cure}" if family == "wire" else kind

    def _command(self, apart: Sequence[Pair]) -> tuple[str, ...]:
        """Return the command that compares the forms of one of the loops; none where no built-in loop of them has both."""
        for info in (self.infos[arm] for pair in apart for arm in (pair.a, pair.b)):
            option, default = form_option(info.loop)
            if option and info.calls_in != NATIVE:
                loop = str(Spec(info.loop, _without(info, option)))
                values = f"{option}={info.options.get(option, default)},{NATIVE}"
                return ("whichloop", "ablate", loop, "--factor", values, "--profile", self.profile)
        return ()


def _without(info: ArmInfo, *options: str) -> dict[str, object]:
    return {name: value for name, value in info.options.items() if name not in options}
