"""Which calls may go out: rules in their order, and what the compiler makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from planner_svc.compile import compile_plan
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import CompileResponse, Decision, DiagnosticCode, Policy, PolicyRule
from tests.fakes.planner import prove as prove_names
from tests.unit.planner_svc.building import api, codes, param, plan, prove, record, step

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
READ, SAVE, REMOVE = api("read"), api("save", method="POST"), api("remove", method="DELETE")


def rule(decision: Decision, **patterns: str) -> PolicyRule:
    return PolicyRule(decision=decision, **patterns)


def policy(*rules: PolicyRule, **more: object) -> Policy:
    return Policy.model_validate({"rules": rules, **more})


@pytest.mark.parametrize("method", METHODS)
def test_by_default_reads_are_allowed_and_all_others_ask(method: str) -> None:
    assert Policy().decide(api("x", method=method)) is (ALLOW if method in METHODS[:3] else ASK)


@pytest.mark.parametrize(
    ("patterns", "read", "save", "remove"),
    [
        ({}, DENY, DENY, DENY),
        ({"api": "t.save"}, ALLOW, DENY, ASK),
        ({"api": "t.*e"}, ALLOW, DENY, DENY),
        ({"api": "save"}, ALLOW, ASK, ASK),  # the whole id, not a part of it
        ({"api": "t.[rs]*"}, DENY, DENY, DENY),
        ({"api": "T.SAVE"}, ALLOW, ASK, ASK),  # ids are case-sensitive
        ({"provider": "t"}, DENY, DENY, DENY),
        ({"provider": "other"}, ALLOW, ASK, ASK),
        ({"method": "DELETE"}, ALLOW, ASK, DENY),
        ({"method": "delete"}, ALLOW, ASK, DENY),  # a rule that denies must not fail by its spelling
        ({"method": "P*"}, ALLOW, DENY, ASK),
        ({"tenant": "acme"}, DENY, DENY, DENY),
        ({"tenant": "ac??"}, DENY, DENY, DENY),
        ({"tenant": "rival"}, ALLOW, ASK, ASK),
        ({"api": "t.*", "method": "DELETE", "tenant": "acme"}, ALLOW, ASK, DENY),
        ({"api": "t.*", "method": "DELETE", "tenant": "rival"}, ALLOW, ASK, ASK),
    ],
)
def test_a_rule_speaks_of_what_all_its_patterns_match(
    patterns: dict[str, str], read: Decision, save: Decision, remove: Decision
) -> None:
    chosen = policy(rule(DENY, **patterns), tenant="acme")
    assert [chosen.decide(called) for called in (READ, SAVE, REMOVE)] == [read, save, remove]


def test_the_first_rule_that_matches_decides() -> None:
    rules = (rule(ALLOW, api="t.save"), rule(ASK, method="POST"), rule(DENY, provider="t"))
    assert [policy(*rules).decide(called) for called in (SAVE, api("send", method="POST"), REMOVE)] == [
        ALLOW, ASK, DENY,
    ]  # fmt: skip
    assert [policy(*reversed(rules)).decide(called) for called in (READ, SAVE)] == [DENY, DENY]


def test_a_rule_wins_over_the_lists_and_the_default() -> None:
    lists: dict[str, object] = {"allow": ("t.*",), "deny": ("t.remove",), "mutating": DENY}
    assert policy(rule(ASK, api="t.*"), **lists).decide(REMOVE) is ASK
    assert policy(rule(ASK, api="else.*"), **lists).decide(REMOVE) is DENY
    assert policy(rule(ASK, api="else.*"), **lists).decide(SAVE) is Decision.ALLOW_UNSURE


def test_reads_can_be_asked_for_and_denied() -> None:
    asked = prove(plan(step("a", "read")), READ, policy=policy(rule(ASK, api="t.read")))
    assert asked.compiled is not None
    assert (asked.compiled.proof.mutating, asked.compiled.proof.approvals) == ((), ("a",))
    assert [(d.code, d.severity, d.step) for d in asked.diagnostics] == [
        (DiagnosticCode.APPROVAL_REQUIRED, "warning", "a")
    ]
    denied = prove(plan(step("a", "read")), READ, policy=policy(rule(DENY, method="GET")))
    assert (denied.compiled, codes(denied)) == (None, {DiagnosticCode.DENIED})


@pytest.mark.parametrize(
    ("rules", "anywhere"),
    [
        ((), True),
        ((rule(DENY, method="DELETE"),), True),
        ((rule(DENY, host="other.example", path="/v1*"),), True),
        ((rule(DENY, path="/admin*"),), False),
        ((rule(ASK, host="t.example", path="/admin*"),), False),
        ((rule(ALLOW, path="/v1/read*"), rule(DENY)), False),
        ((rule(ALLOW, host="t.example"), rule(DENY)), True),
    ],
)
def test_pages_may_be_at_another_path_where_all_of_the_host_may_be_read(
    rules: tuple[PolicyRule, ...], anywhere: bool
) -> None:
    read = api("read").model_copy(update={"server": "https://t.example/v1", "path": "/read"})
    proved = prove(plan(step("a", "read")), read, policy=policy(*rules))
    assert proved.compiled is not None
    assert proved.compiled.proof.pages_anywhere == (("t.read",) if anywhere else ())


def test_no_page_of_a_change_is_anywhere() -> None:
    proved = prove(plan(step("a", "save")), SAVE, policy=Policy(mutating=ALLOW))
    assert proved.compiled is not None
    assert proved.compiled.proof.pages_anywhere == ()


def test_each_tenant_has_its_own_rules() -> None:
    rules = (rule(ALLOW, tenant="trusted", method="POST"), rule(DENY, tenant="guest*"), rule(ASK))
    found = {name: policy(*rules, tenant=name).decide(SAVE) for name in ("trusted", "guest-7", "acme")}
    assert found == {"trusted": ALLOW, "guest-7": DENY, "acme": ASK}


@pytest.mark.parametrize(("decision", "inserted"), [(ALLOW, ("implicit1",)), (ASK, None), (DENY, None)])
def test_a_call_is_inserted_only_where_it_is_allowed(decision: Decision, inserted: tuple[str, ...] | None) -> None:
    text = {"type": "string"}
    sun = api("sun", param("lat", text, required=True), param("iata", text))
    airport = api("airport", param("iata", text, required=True), returns=record(lat=text))
    chosen = policy(rule(decision, api="t.airport"))
    response = prove(plan(step("a", "sun", iata="LIS")), sun, airport, policy=chosen)
    assert (response.compiled and response.compiled.proof.inserted) == inserted
    if inserted is None:
        assert [question.argument for question in response.questions] == ["lat"]


@pytest.mark.parametrize("wrong", [{"decision": "maybe"}, {"decision": "deny", "url": "/x"}, {}, {"api": "t.*"}])
def test_a_rule_that_cannot_be_understood_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        PolicyRule.model_validate(wrong)


@pytest.mark.parametrize("field", ["api", "provider", "method", "tenant"])
def test_a_rule_that_can_match_nothing_is_refused(field: str) -> None:
    with pytest.raises(ValidationError):
        PolicyRule.model_validate({"decision": "deny", field: ""})


DECISIONS = st.sampled_from(Decision)
NAMES = st.sampled_from(["read", "save", "remove", "send"])
PATTERNS = st.sampled_from(["*", "t.*", "t.save", "t.r*", "else.*", "*e"])
APIS = st.builds(lambda name, method: api(name, method=method), NAMES, st.sampled_from(METHODS))
RULES = st.builds(
    PolicyRule,
    decision=DECISIONS,
    api=PATTERNS,
    provider=st.sampled_from(["*", "t", "u"]),
    method=st.sampled_from(["*", *METHODS, "p*"]),
    tenant=st.sampled_from(["*", "acme", "rival"]),
)
POLICIES = st.builds(
    Policy,
    mutating=DECISIONS,
    rules=st.lists(RULES, max_size=6).map(tuple),
    allow=st.lists(PATTERNS, max_size=2).map(tuple),
    deny=st.lists(PATTERNS, max_size=2).map(tuple),
    tenant=st.sampled_from(["acme", "rival"]),
)


@given(POLICIES, APIS)
def test_a_first_rule_that_matches_wins_over_all_that_follows(chosen: Policy, called: Api) -> None:
    for decision in Decision:
        rules = (rule(decision, api=called.id), *chosen.rules)
        assert chosen.model_copy(update={"rules": rules}).decide(called) is decision


@given(POLICIES, APIS, st.data())
def test_rules_about_others_change_nothing(chosen: Policy, called: Api, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(chosen.rules)))
    strange = rule(data.draw(DECISIONS), api="elsewhere.*")
    rules = (*chosen.rules[:at], strange, *chosen.rules[at:])
    assert chosen.model_copy(update={"rules": rules}).decide(called) is chosen.decide(called)


@given(POLICIES, APIS)
def test_nothing_mutating_is_allowed_that_nobody_allowed(chosen: Policy, called: Api) -> None:
    if chosen.decide(called) is ALLOW and called.mutating:
        assert chosen.allow or chosen.mutating is ALLOW or any(r.decision is ALLOW for r in chosen.rules)


def _reported(response: CompileResponse, code: DiagnosticCode) -> list[str | None]:
    return [diagnostic.step for diagnostic in response.diagnostics if diagnostic.code is code]


@given(POLICIES, st.lists(APIS, min_size=1, max_size=4, unique_by=lambda found: found.id))
def test_a_proof_lists_what_is_asked_for_and_exists_only_where_nothing_is_denied(
    chosen: Policy, used: list[Api]
) -> None:
    steps = [step(f"s{index}", called.name) for index, called in enumerate(used)]
    subject: Plan = plan(*steps, answer=f"${steps[-1].id}$")
    decisions = {own.id: chosen.decide(called) for own, called in zip(steps, used, strict=True)}
    response = compile_plan(subject, used, chosen, None)
    denied, asked = ([s for s, d in decisions.items() if d is wanted] for wanted in (DENY, ASK))
    assert _reported(response, DiagnosticCode.DENIED) == denied
    assert _reported(response, DiagnosticCode.APPROVAL_REQUIRED) == asked
    for answer in (response, prove_names(subject, used, chosen)):  # the fake heeds the policy as the compiler does
        assert (answer.compiled is None) == bool(denied)
        if answer.compiled is not None:
            assert list(answer.compiled.proof.approvals) == asked
            assert list(answer.compiled.proof.mutating) == [
                s.id for s, a in zip(steps, used, strict=True) if a.mutating
            ]


def test_an_api_of_a_plan_may_be_the_last_that_rules_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing a long path with many rules takes a while; in between, others' work and deadlines count."""
    looks: list[None] = []
    monkeypatch.setattr("planner_svc.compiler.access.checkpoint", lambda: looks.append(None))
    read_twice = plan(step("a", "read"), step("b", "read"), step("c", "save"), step("d", "remove"))
    prove(read_twice, READ, SAVE, REMOVE)
    assert len(looks) >= 3
