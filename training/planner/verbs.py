"""Verbs that requests begin with, and their synonyms."""

from __future__ import annotations

from planner_svc.reading.text import word_set

SYNONYMS: dict[str, tuple[str, ...]] = {
    "get": (
        "get",
        "get me",
        "fetch",
        "show me",
        "look up",
        "find",
        "give me",
        "check",
        "pull up",
        "retrieve",
        "tell me",
    ),
    "list": ("list", "show me", "show", "get", "give me", "find", "pull up"),
    "search": ("search for", "find", "look for", "look up", "find me"),
    "create": ("create", "make", "add", "set up", "create"),
    "add": ("add", "put in", "add"),
    "update": ("update", "change", "edit", "modify"),
    "delete": ("delete", "remove", "get rid of", "delete"),
    "cancel": ("cancel", "call off", "cancel"),
    "send": ("send", "send out", "send"),
    "calculate": ("calculate", "compute", "work out", "figure out"),
    "estimate": ("estimate", "give me an estimate of", "work out"),
    "analyze": ("analyze", "analyse", "do an analysis of", "look into"),
    "book": ("book", "reserve", "book me"),
    "schedule": ("schedule", "set up", "arrange", "plan"),
    "check": ("check", "have a look at", "verify"),
    "convert": ("convert", "turn", "change"),
    "generate": ("generate", "make", "produce", "create"),
    "submit": ("submit", "send in", "hand in", "file"),
    "tell": ("tell me",),
    "start": ("start", "launch", "kick off", "begin"),
    "recommend": ("recommend", "suggest"),
}
SAME = {
    "retrieve": "get",
    "fetch": "get",
    "return": "get",
    "read": "get",
    "obtain": "get",
    "provide": "get",
    "view": "get",
    "show": "get",
    "display": "get",
    "acquire": "get",
    "query": "search",
    "find": "search",
    "register": "create",
    "insert": "add",
    "modify": "update",
    "edit": "update",
    "change": "update",
    "patch": "update",
    "remove": "delete",
    "destroy": "delete",
    "compute": "calculate",
    "determine": "calculate",
    "analyse": "analyze",
    "reserve": "book",
    "verify": "check",
    "lookup": "get",
    "gets": "get",
    "describe": "get",
    "enumerate": "list",
    "arrange": "schedule",
}
VERBS = word_set(
    """
    accept access activate add adjust allocate allow analyse analyze apply approve archive arrange assess assign
    attach authorize backup block book borrow browse build buy calculate calibrate call cancel change check choose
    classify clear clone close collect combine compare complete compose compute conduct configure confirm connect
    control convert convert copy count create deactivate define delete deliver deploy describe design detect
    determine develop diagnose disable dispatch display download draft draw edit enable encode encrypt enhance
    enroll establish estimate evaluate examine execute explore export extract fetch file filter find fix follow
    forecast format gather generate geocode get give grant guide handle hire identify implement import improve
    increase initiate insert inspect install interpret investigate invite join launch learn link list load locate
    lock log look lookup make manage map mark match measure merge modify monitor move navigate notify obtain open
    optimize order organize parse pause pay perform place plan play post predict prepare print process produce
    provide publish purchase put query rank rate read recommend record recover recruit redeem reduce refund
    register reject release remove rename render renew rent repair replace reply report request reschedule
    research reserve reset resize resolve respond restart restore resume retrieve return reverse review revoke
    roll run save scan schedule score search secure select sell send set share show sign simulate solve sort start
    stop store stream submit subscribe suggest summarize switch sync tag take test track train transcribe transfer
    transform translate trigger turn unlock unsubscribe update upgrade upload use validate verify view visit vote
    watch withdraw write tell take begin answer assist engage
    """
)
READING = word_set("get list search check view read show find count")
COMPUTING = word_set(
    """
    calculate estimate convert compare analyze predict determine evaluate assess measure forecast translate
    summarize detect tell identify classify diagnose validate count recommend track monitor extract simulate
    """
)
