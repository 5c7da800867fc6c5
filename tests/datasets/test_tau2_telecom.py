"""tau2's domain telecom: a company and a phone that agree after each call, faults with their cures, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.datasets.test_tau2 import accuracy, make
from whichloop.checks.suite import task_problems
from whichloop.datasets import tau2
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.tau2 import telecom

COMPANY = """
plans = [{plan_id = "P1", name = "Small", data_limit_gb = 4.0, price_per_month = 30.0, data_refueling_price_per_gb = 2.5}]
devices = [{device_id = "D1", model = "Brick", activation_date = 2025-01-02}]
bills = [{bill_id = "B1", customer_id = "C1", issue_date = "2025-01-01", total_due = 30.0, status = "Paid"}]
[[lines]]
line_id = "L1"
phone_number = "555-1"
status = "Active"
plan_id = "P1"
device_id = "D1"
data_used_gb = 1.0
roaming_enabled = false
[[customers]]
customer_id = "C1"
full_name = "Ida Rhodes"
date_of_birth = "1900-05-15"
phone_number = "555-0"
line_ids = ["L1"]
bill_ids = ["B1"]
"""
PHONE = """
[device.app_statuses.messaging]
app_name = "messaging"
permissions = {sms = true, storage = true}
"""
LINE = {"customer_id": "C1", "line_id": "L1"}
MESSAGING = {"app_name": "messaging", "permission": "sms"}
USER_TOOLS = telecom.DOMAIN.user_tools
Call = tuple[str, Mapping[str, Any]]


def call(name: str, /, side: str = "user", **arguments: Any) -> dict[str, Any]:
    return {"env_type": side, "func_name": name, "arguments": arguments}


ME = call("set_user_info", name="Ida Rhodes", phone_number="555-1")
ABROAD = call("set_user_location", abroad=True)
FAST = call("assert_internet_speed", expected_speed=200, expected_desc="excellent")
ONLINE = call("assert_mobile_data_status", expected_status=True)
SERVED = call("assert_service_status", expected_status="connected")
PICTURES = call("assert_can_send_mms", expected_status=True)
PAID = call("assert_no_overdue_bill", "assistant", overdue_bill_id="B9")
OVERDUE = call("suspend_line_for_overdue_bill", "assistant", **LINE, new_bill_id="B9", contract_ended=False)


def row(starts: Any, actions: Any, asserted: Any, **changed: Any) -> dict[str, Any]:
    named = [
        {"action_id": name, "requestor": "user" if name in USER_TOOLS else "assistant", "name": name, "arguments": arguments}
        for name, arguments in actions
    ]
    judged = {"actions": named, "env_assertions": asserted, "reward_basis": ["ENV_ASSERTION"]}
    begun = {"initialization_actions": [ME, *starts]}
    return {"id": "t", "ticket": "It is broken.", "initial_state": begun, "evaluation_criteria": judged, **changed}


def write(folder: Path, *rows: Any, **files: str | None) -> Path:
    contents = {"tasks__json": json.dumps(rows), "db__toml": COMPANY, "user_db__toml": PHONE}
    contents |= {"main_policy_solo__md": "Be kind.\n", "tech_support_manual__md": "# Phones\n"}
    for name, content in {**contents, **files}.items():
        if content is not None:
            (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return folder


def only(folder: Path, given: Any) -> tuple[Suite, Task]:
    suite = tau2.load(data=write(folder, given))
    return suite, suite.tasks[0]


def test_a_number_that_json_lacks_is_told_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"db\.toml: .*not JSON compliant"):
        tau2.load(data=write(tmp_path, row([], [REBOOT], []), db__toml=COMPANY.replace("4.0", "nan")))


REBOOT: Call = ("reboot_device", {})
RESET: list[Call] = [("reset_apn_settings", {}), REBOOT]
FAULTS: Mapping[str, tuple[list[Any], list[Call], list[Any]]] = {
    "roaming off on the phone": (
        [ABROAD, call("enable_roaming", "assistant", **LINE), call("turn_roaming_off")], [("toggle_roaming", {})], [FAST],
    ),
    "roaming off everywhere": (
        [ABROAD, call("turn_roaming_off")], [("enable_roaming", LINE), ("toggle_roaming", {})], [ONLINE, FAST],
    ),
    "data off": ([call("turn_data_off")], [("toggle_data", {})], [ONLINE]),
    "data saved": ([call("turn_data_saver_mode_on")], [("toggle_data_saver_mode", {})], [FAST]),
    "slow network": (
        [call("set_network_mode_preference", mode="2g_only")], [("set_network_mode_preference", {"mode": "4g_5g_preferred"})],
        [FAST, PICTURES],
    ),
    "slow VPN": ([call("break_vpn")], [("disconnect_vpn", {})], [FAST]),
    "data used up": (
        [call("set_data_usage", "assistant", **LINE, data_used_gb=4.5)], [("refuel_data", {**LINE, "gb_amount": 2})],
        [FAST, call("assert_data_refueling_amount", "assistant", **LINE, expected_amount=2.0)],
    ),
    "airplane mode": ([call("turn_airplane_mode_on")], [("toggle_airplane_mode", {})], [SERVED]),
    "no SIM card": ([call("unseat_sim_card")], [("reseat_sim_card", {})], [SERVED]),
    "no access point": ([call("break_apn_settings")], RESET, [SERVED]),
    "no address for pictures": ([call("break_apn_mms_setting")], RESET, [PICTURES]),
    "pictures over Wi-Fi": (
        [call("set_wifi_calling", enabled=True, mms_over_wifi=True)], [("toggle_wifi_calling", {})], [PICTURES],
    ),
    "no permission": ([call("remove_app_permission", **MESSAGING)], [("grant_app_permission", MESSAGING)], [PICTURES]),
    "bill unpaid": (
        [OVERDUE, call("simulate_network_search")],
        [("send_payment_request", {"customer_id": "C1", "bill_id": "B9"}), ("make_payment", {}), ("resume_line", LINE), REBOOT],
        [SERVED, PAID],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_cured_by_all_of_its_actions_and_by_no_fewer(tmp_path: Path, name: str) -> None:
    starts, actions, asserted = FAULTS[name]
    suite, task = only(tmp_path, row(starts, actions, asserted))
    assert (task.quarantined, task.no_plan) == ("", "")
    assert task_problems(suite) == []
    assert accuracy(suite, task, *actions) == 1.0
    for left_out in range(len(actions)):
        assert accuracy(suite, task, *actions[:left_out], *actions[left_out + 1 :]) == 0.0


@given(st.permutations(list(FAULTS)).map(lambda names: names[:4]))
@settings(max_examples=cases(10), deadline=None)
def test_faults_together_are_cured_by_their_actions_together(tmp_path_factory: Any, names: list[str]) -> None:
    starts = [start for name in names for start in FAULTS[name][0]]
    actions = [action for name in names for action in FAULTS[name][1]]
    once = [action for at, action in enumerate(actions) if action not in actions[:at]]
    cures = [action for action in once if action != REBOOT] + [REBOOT]  # each setting is turned over once, the phone started last
    asserted = [item for name in names for item in FAULTS[name][2]]
    suite, task = only(tmp_path_factory.mktemp("telecom"), row(starts, cures, asserted))
    assert task.quarantined == ""
    assert accuracy(suite, task, *cures) == 1.0


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Suite, Task]:
    return only(tmp_path_factory.mktemp("telecom"), row([OVERDUE, ABROAD, call("break_vpn")], REBOOTED, [PAID]))


REBOOTED: list[Call] = [("send_payment_request", {"customer_id": "C1", "bill_id": "B9"}), ("make_payment", {})]
ARGUMENTS: Mapping[str, Any] = {
    "phone_number": st.sampled_from(["555-0", "555-1", "555-2"]),
    "customer_id": st.sampled_from(["C1", "C2"]),
    "line_id": st.sampled_from(["L1", "L2"]),
    "bill_id": st.sampled_from(["B1", "B9", "B0"]),
    "id": st.sampled_from(["C1", "L1", "P1", "D1", "B9", "X", ""]),
    "mode": st.sampled_from(["4g_5g_preferred", "4g_only", "3g_only", "2g_only", "6g"]),
    "gb_amount": st.sampled_from([-1, 0, 0.5, 3]),
    "app_name": st.sampled_from(["messaging", "chess"]),
    "permission": st.sampled_from(["sms", "STORAGE", "soul"]),
    "apn_settings": st.sampled_from([{}, {"apn_name": "broken"}, {"mmsc_url": None}, {"speed": 1}]),
    "limit": st.integers(0, 3),
}


@given(st.data())
@settings(max_examples=cases(12), deadline=None)
def test_whatever_is_called_the_company_and_the_phone_agree_and_no_other_trial_sees_it(broken: Any, data: Any) -> None:
    suite, task = broken
    one, other, untouched = (suite.open(task) for _ in range(3))
    for _ in range(data.draw(st.integers(1, 8))):
        tool = data.draw(st.sampled_from(one.tools))
        needed = tool.parameters.get("properties", {})
        made = (tool.name, {name: data.draw(ARGUMENTS.get(name, st.just("Ida Rhodes"))) for name in needed})
        (seen,), (again,) = make(one, made), make(other, made)
        assert (seen.ok, seen.data) == (again.ok, again.data)
        db = one.world.db
        assert db["surroundings"]["line_active"] == (db["carrier"]["lines"][0]["status"] == "Active")
        assert db["surroundings"]["roaming_allowed"] == db["carrier"]["lines"][0]["roaming_enabled"]
        waiting = [bill["bill_id"] for bill in db["carrier"]["bills"] if bill["status"] == "Awaiting Payment"]
        asked = db["surroundings"]["payment_request"]
        assert waiting == ([] if asked is None else [asked["bill_id"]])
        if made[0] in telecom.DOMAIN.reads:
            assert make(one, made)[0].data == seen.data
    assert one.world.db == other.world.db == json.loads(json.dumps(one.world.db))
    assert untouched.world.db == task.world["db"]
