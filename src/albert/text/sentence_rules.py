"""A language's code comes in; the words that tell a full stop from a sentence's end in it go out.

Abbreviations are spelled in lower case and without their last full stop.
"""

from dataclasses import dataclass, field

from albert.errors import InputError


@dataclass(frozen=True, slots=True)
class SentenceRules:
    """What one language's sentences are told by.

    After an abbreviation of `never` no sentence ends; after one of `before_number`, unless a number follows;
    after one of `seldom`, an initial or a dotted one (U.S.), only if one of the `starters` follows, words
    that begin sentences and hardly ever names. `speech_verbs` follow a speaker's name after a quotation.
    Where `has_ordinals`, "3." is "third" after one of `ordinal_cues` and before one of `months`. Where
    `has_spaced_quotes`, a space goes before a closing ».
    """

    never: frozenset[str]
    before_number: frozenset[str]
    seldom: frozenset[str]
    starters: frozenset[str] = frozenset()
    speech_verbs: frozenset[str] = frozenset()
    has_ordinals: bool = False
    ordinal_cues: frozenset[str] = frozenset()
    months: frozenset[str] = frozenset()
    has_spaced_quotes: bool = False
    abbreviations: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "abbreviations", self.never | self.before_number | self.seldom)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENGLISH = SentenceRules(
    never=_words(
        "M mr mrs ms messrs mssrs dr drs prof profs rev revd hon rt capt col gen lt lieut sgt sergt cpl "
        "maj adm cmdr comdr gov sen pres supt insp fr mme mlle mlles mgr mons sra mt ft pte pvt vs viz cf "
        "e.g i.e eg ie approx ca dept univ assn intl natl nos pp incl excl"
    ),
    before_number=_words(
        "no p vol vols ch chap chaps fig figs art sec sect par para eq app ex pt bk pl rm apt ext op ff "
        "etc cent"
    ),
    seldom=_words(
        "st sr jr esq co cos inc ltd corp bros plc al ibid eds trans ave blvd rd hwy sq jan feb febr apr "
        "jul aug sept oct nov dec mon tue tues thu thur thurs fri a.m p.m ph.d m.d b.c a.d oz lb lbs ft "
        "hrs mins secs yrs calif conn ariz colo fla kan ky minn tenn wis doz"
    ),
    starters=_words(
        "The A An He She It We You They I This That These Those There Here But And Or So Then When While "
        "What Who Why How Where Which If In On At As After Before Since For From With Without His Her Its "
        "Our Their My Your Not Now Yes Well Oh Perhaps Once One Some Such Still Yet Thus However "
        "Nevertheless Meanwhile Although Though Because Until By To Both Each Every All Many Most Let Did "
        "Does Is Was Were Are Has Have Had Can Could Would Should No Nobody Nothing Somebody Something "
        "Someone Everyone Everything Another Two Three Suddenly Finally Soon Later Again Never Even Only "
        "Just Today Yesterday"
    ),
    speech_verbs=_words(
        "said asked cried replied answered exclaimed whispered shouted muttered murmured called added "
        "returned continued inquired enquired demanded remarked observed repeated thought began "
        "interrupted screamed yelled gasped sighed growled ejaculated responded rejoined retorted "
        "suggested laughed says asks roared snapped sobbed groaned faltered stammered protested wondered "
        "queried interposed echoed"
    ),
)

_GERMAN = SentenceRules(
    never=_words(
        "dr dres prof fa hr hrn fr frl dipl ing med phil jur rer nat theol hl bzw ca vgl sog evtl ggf inkl "
        "exkl zzgl abzgl geb gest verh gesch ehem bez betr bzgl mind ebd hrsg hg bsp spez insb insbes allg "
        "lt vorm nachm röm griech lat engl frz franz dt österr schweiz kath evang ev einschl entspr zw zus "
        "wg freiherr mr mrs mme mlle z.b d.h u.a z.t i.d.r"
    ),
    before_number=_words("nr nrn bd bde abb tab kap art abs ziff max pos seite zi vers fig hausnr anm no"),
    seldom=_words(
        "st usw etc usf dgl std min sek mio mrd tsd abt aufl ausg jg jh jhd jhdt jahrh chr str tel jan feb "
        "febr mrz apr aug sept sep okt nov dez jr sen jun gebr kgl kais nachf verl verf übers resp gmbh "
        "inc co"
    ),
    starters=_words(
        "Der Die Das Dem Den Des Ein Eine Einer Einem Einen Er Sie Es Wir Ihr Ich Du Man Dieser Diese "
        "Dieses Diesen Diesem Jener Jene Und Aber Doch Oder Denn Sondern Da Dann Dort Hier Nun Jetzt So "
        "Als Wenn Weil Während Nachdem Bevor Obwohl Obgleich Damit Danach Dabei Dadurch Daher Deshalb "
        "Deswegen Darum Darauf Daraufhin Dagegen Trotzdem Dennoch Jedoch Auch Noch Nur Schon Erst In Im Am "
        "An Auf Aus Bei Beim Mit Nach Von Vom Vor Zu Zum Zur Unter Über Durch Für Gegen Ohne Um Seit Bis "
        "Was Wer Wie Wo Warum Wann Welche Welcher Mein Meine Dein Sein Seine Ihre Unser Unsere Kein Keine "
        "Alle Alles Nicht Nichts Niemand Jemand Ja Nein Vielleicht Plötzlich Endlich Später Zuerst Bald "
        "Sogar Heute Gestern Morgen Einige Viele Zwei Drei"
    ),
    has_ordinals=True,
    ordinal_cues=_words(
        "der die das dem den des am im vom zum zur beim ein eine einen einem einer jeder jede jedes jeden "
        "jedem dieser diese dieses diesen diesem ins ans bis und seit ab nach vor sein seine seinen seinem "
        "seiner ihr ihre ihren ihrem ihrer mein meine meinen meinem unser unsere unserem unserer euer "
        "zweite als"
    ),
    months=_words(
        "Januar Jänner Jan Februar Feber Feb März Mrz April Apr Mai Juni Jun Juli Jul August Aug September "
        "Sept Sep Oktober Okt November Nov Dezember Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Jhd "
        "Jahrestag Kapitel Klasse Stock Geburtstag"
    ),
)

_FRENCH = SentenceRules(
    never=_words(
        "M mm mr mgr dr drs pr prof mme mlle mmes mlles ste cf env av apr c.-à-d p.ex tél boul bd prés gén "
        "col capt lt cdt"
    ),
    before_number=_words("no pp vol chap art fig tom sect par ill ex sept ch num réf ann etc fr frs cts"),
    seldom=_words(
        "st ibid id éd éds coll trad dir janv févr avr juil oct nov déc hab min cie sté ltd jr sr suiv"
    ),
    starters=_words(
        "Le La Les L Un Une Des Du De D Il Elle Ils Elles On Nous Vous Je J Tu Ce C Cet Cette Ces Cela Ça "
        "Mon Ma Mes Ton Ta Tes Son Sa Ses Notre Nos Votre Vos Leur Leurs Et Mais Ou Or Donc Car Puis Alors "
        "Ensuite Enfin Ainsi Aussi Quand Lorsque Comme Si S Pendant Après Avant Depuis Dans En Sur Sous "
        "Par Pour Sans Avec Chez Vers À A Au Aux Que Qu Qui Quoi Où Pourquoi Comment Quel Quelle Non Oui "
        "Pourtant Cependant Toutefois Tout Tous Toute Toutes Rien Personne Jamais Toujours Soudain Bientôt "
        "Plus N Ne Y Deux Trois"
    ),
    has_spaced_quotes=True,
)

# Chinese quotes English names, and writes its own full stop otherwise.
_CHINESE = SentenceRules(never=_ENGLISH.never, before_number=_ENGLISH.before_number, seldom=_ENGLISH.seldom)

_ANY = SentenceRules(
    never=_words("mr mrs ms dr prof e.g i.e vs cf ca"),
    before_number=_words("no nr vol fig p pp art ch"),
    seldom=_words("st jr sr etc co ltd inc a.m p.m"),
)

RULES = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH, "zh": _CHINESE, "xx": _ANY}


def find_rules(language: str) -> SentenceRules:
    """The rules of a language (`en`, or `en-GB`); refused: a code that has none."""
    rules = RULES.get(language) or RULES.get(language.replace("_", "-").split("-")[0].lower())
    if rules is None:
        known = ", ".join(code for code in RULES if code != "xx")
        raise InputError(
            f"no sentence rules for language {language!r}; there are {known}, and xx for any other language"
        )
    return rules
