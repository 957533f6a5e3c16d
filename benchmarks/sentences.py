"""Whether a docstring begins with a sentence, judged by its words: a heuristic for `benchmarks.house`.

A sentence is an order ("Return the rows.") or has a finite verb outside of its relative clauses ("Rows are merged.",
but not "Rows that are merged."). Of the first sentence only what stands before a colon or semicolon counts.
"""

import re
from itertools import pairwise


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IMPERATIVES = _words(
    """
    accept add adjust allow answer append apply approximate ask assemble assert assign attach average bind block
    bound broadcast build cache calibrate call carry cast centre check choose clear climb clip close collect
    combine compare complain compute concatenate conformalise connect continue convert copy correct count create
    cut decide declare decode decompose define delete derive descend describe detect discard display divide
    download draw drop dump enable encode end ensure enter enumerate escape estimate evaluate exclude execute
    expand explain export express extend extract factorise fall fetch fill filter find finish fit flatten fold
    follow forget form format freeze gather generate get give go group guard guess handle hash hold identify
    ignore import improve include infer initialise insert inspect install integrate interpolate interrupt invert
    iterate join judge keep label lay learn leave let limit link list load locate lock look make map mark match
    maximise measure merge minimise mix move multiply name normalise note open optimise order pack parse partition
    pass penalise permute perturb pick place plot pool predict prepare prevent print process produce project
    propose protect prune pull push put quote raise randomise rank read rebuild recognise recompute reconstruct
    record reduce refit refuse register reject release rely remember remove rename render reorder repeat replace
    report reproduce request require rescale reset resolve restore restrict resume retrieve return reuse reverse
    rotate round run sample save say scale scan score search see select send separate serialise set share shift
    show shrink shuffle simplify simulate skip slice smooth solve sort split square stack standardise start state
    stop store stream strip submit subsample substitute subtract suggest sum summarise suppress swap switch
    tabulate take tell test track train transform translate transpose treat trim truncate try turn undo unflatten
    unpack unwrap update use validate verify visit wait walk warn weigh weight whiten winsorise wrap write yield
    """
)
_FINITE = _words(
    """
    = is are was were has have had does do did can cannot could may might must shall should will would allows
    applies asks begins belongs carries comes computes consists contains decides depends describes differs equals
    fails follows gets gives goes grows happens helps holds increases keeps knows leaves lets lies loses makes
    matters offers predicts raises refuses remains replaces returns says seems serves sees solves stands stays
    takes tells wants warns writes yields
    """
)
_MODALS = _words("can cannot could may might must shall should will would")
_ARTICLES = _words("a all an each every its the these this those whether")
_SUBORDINATORS = _words(
    """
    after although as because before how if since so than that though unless until what whatever when where
    wherever whether which whichever while who whom whose
    """
)
_PREPOSITIONS = _words(
    """
    about above along among around at behind below beside between beyond by down except for from in inside into
    like of off on out over per till to under up upon via with within without
    """
)
_NOT_VERBS = _ARTICLES | _SUBORDINATORS | _PREPOSITIONS | _words("and but else half not or some such twice")


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, at most its first paragraph."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=[^.][.!?])\s+(?=[A-Z`(])", paragraph, maxsplit=1)[0]


def _clauses(sentence: str) -> list[list[str]]:
    """Return the words between commas, in lower case, with "=" as a word and without anything in parentheses."""
    before_colon = re.split(r"[;:](?:\s|$)", re.sub(r"\([^()]*\)", "", sentence.lower()))[0]
    return [words for clause in before_colon.split(",") if (words := re.findall(r"[\w'`]+|(?<= )=(?= )", clause))]


def _is_order(words: list[str], first: bool) -> bool:
    """Return whether a clause begins with a known verb or, in the first one, with a likely verb before an article."""
    words = [word for word in words if not word.endswith("ly")] or [""]
    verb, following = words[0], words[1] if len(words) > 1 else ""
    if verb in _IMPERATIVES:
        return following not in ("of", "over")  # "Sum over rows" is a noun
    return first and verb not in _NOT_VERBS and not verb.endswith("s") and following in _ARTICLES


def _is_statement(words: list[str]) -> bool:
    """Return whether a clause has a finite verb that belongs to none of its subordinate clauses."""
    subordinate = 0
    for before, word in pairwise(["", *words]):
        if word in _SUBORDINATORS:
            subordinate += 1
        elif word in _FINITE and before not in _MODALS:
            if not subordinate:
                return True
            subordinate -= 1
    return False


def begins_amid(docstring: str) -> bool:
    """Return whether a docstring begins like the middle of a sentence: with a preposition, or with "The same".

    >>> begins_amid("Of the rows of both."), begins_amid("The rows of both.")
    (True, False)
    """
    words = re.findall(r"\w+", docstring.lower())[:2]
    return words == ["the", "same"] or words[:1] == ["as"] or not _PREPOSITIONS.isdisjoint(words[:1])


def is_fragment(docstring: str, noun_allowed: bool = False) -> bool:
    """Return whether the first sentence of a docstring seems to have no main verb.

    Where a noun is allowed ("A kernel of one input."), only a fragment that begins with a preposition, with a word such
    as "where" or "who", or with "The same" counts.

    >>> is_fragment("Of the rows of both."), is_fragment("The rows of both."), is_fragment("Return the rows of both.")
    (True, True, False)
    >>> is_fragment("Rows that are merged."), is_fragment("Rows that are equal are merged.")
    (True, False)
    """
    clauses = _clauses(first_sentence(docstring))
    if any(_is_order(words, words is clauses[0]) or _is_statement(words) for words in clauses):
        return False
    is_noun = bool(clauses) and clauses[0][0] not in _SUBORDINATORS and not begins_amid(docstring)
    return not (noun_allowed and is_noun)
