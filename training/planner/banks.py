"""Values that people use in requests, by kind."""

from __future__ import annotations

from typing import Final

from planner_svc.reading.text import word_set


def _bank(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split("|") if part.strip())


FIRST: Final = _bank(
    """Anna|John|Maria|David|Wei|Fatima|Carlos|Priya|Tom|Elena|Ahmed|Sophie|Lucas|Yuki|Olga|Sam|Nina|Omar|Grace|Ivan|
    Chloe|Mateo|Aisha|Peter|Lin|Emma|Kofi|Laura|Raj|Hanna|Diego|Zoe|Marek|Ingrid|Paul|Amara|Leo|Sven|Bea|Jack"""
)
LAST: Final = _bank(
    """Smith|Garcia|Müller|Chen|Okafor|Rossi|Kim|Novak|Johnson|Patel|Dubois|Silva|Larsen|Haddad|Brown|Kowalski|Tanaka|
    O'Brien|Nguyen|Weber|Lopez|Ivanova|Wilson|Andersson|Mensah|Fischer|Costa|Murphy|Khan|Petrov|Taylor|Moreau"""
)
CITIES: Final = _bank(
    """Paris|London|New York|Tokyo|Berlin|Madrid|Chicago|Sydney|Toronto|Mumbai|São Paulo|Cape Town|Singapore|Boston|
    Seattle|Amsterdam|Rome|Dubai|Mexico City|Stockholm|Los
    Angeles|Istanbul|Kyoto|Austin|Dublin|Prague|Nairobi|Zurich| San Francisco|Buenos
    Aires|Warsaw|Seoul|Denver|Barcelona|Houston|Hamburg|Melbourne|Oslo|Vancouver|Bangkok"""
)
COUNTRIES: Final = _bank(
    """France|Germany|Japan|Brazil|India|the United States|Canada|Australia|Spain|Italy|Kenya|South Africa|Mexico|
    Sweden|Norway|China|the UK|Argentina|Poland|Portugal|Egypt|Vietnam|New Zealand|Ireland|the Netherlands|Chile"""
)
STATES: Final = _bank(
    "California|Texas|Bavaria|Ontario|New South Wales|Florida|Catalonia|Scotland|Oregon|Tuscany|Quebec|Ohio|Brittany"
)
STREETS: Final = _bank(
    """12 Baker Street|45 Main Street|221 Elm Avenue|8 Rue de Rivoli|300 Market Street|17 High Street|99 Harbour
    Road| 5 Park Lane|1420 Oak Drive|64 Station Road|23 Mill Lane|710 Sunset Boulevard"""
)
PLACES: Final = _bank(
    """the city library|Central Park|Terminal 2|the main office|Room 204|the Hilton downtown|Union Station|the north
    campus|Harbour Hall|the old town|Conference Room B|Warehouse 3|the airport|Riverside Mall"""
)
COMPANIES: Final = _bank(
    """Acme Corp|Globex|Nordwind|Apple|Siemens|BrightPath|Tesla|Blue River Foods|Samsung|Vertex Labs|Toyota|Umbra
    Systems|Nike|Lumen Health|Microsoft|GreenLeaf|Oakwood Partners|Spotify|Hooli|Adidas|Kestrel Media"""
)
PRODUCTS: Final = _bank(
    """wireless mouse|standing desk|espresso machine|running shoes|iPhone 15|noise-cancelling headphones|yoga mat|
    winter jacket|electric kettle|office chair|mountain bike|4K monitor|water bottle|backpack|desk lamp|smart
    watch"""
)
LANGUAGES: Final = _bank(
    "English|Spanish|French|German|Japanese|Mandarin|Portuguese|Italian|Arabic|Hindi|Korean|Dutch|Polish"
)
CURRENCIES: Final = _bank("USD|EUR|GBP|JPY|CHF|CAD|AUD|SEK|INR|BRL|PLN|MXN")
TOPICS: Final = _bank(
    """climate change|renewable energy|machine learning|remote work|electric cars|data privacy|quantum
    computing|urban gardening|supply chains|mental health|space exploration|microplastics|inflation|digital
    marketing|ancient Rome| cyber security|vegan recipes|coral reefs|World War II|jazz history|street
    photography|sleep quality"""
)
TITLES: Final = _bank(
    """Summer Sale|Budget Review|Project Phoenix|The Long Way Home|Team Offsite|Q3 Report|Midnight Garden|Spring
    Launch| Weekly Sync|Blue Horizon|Annual Meeting|Getting Started|Paper Moons|Road to Nowhere|Release
    Notes|Autumn Leaves| Customer Survey 2026|Welcome Pack|Night Shift|Green Future|Ocean Drive|Starlight|Invoice
    April|First Steps"""
)
MESSAGES: Final = _bank(
    """Don't forget the meeting tomorrow|The package has arrived|I'll be ten minutes late|Thanks for your
    help!|Please call me back|Happy birthday, see you on Saturday|The server is down again|Can we move this to
    Friday?|We are out of printer paper|Your order has been shipped|Lunch is on me today|The report is ready for
    review|Great job everyone| Water the plants|See you at the station|The door on the second floor is
    broken|Everything works as expected"""
)
REASONS: Final = _bank(
    """wrong size|no longer needed|duplicate entry|arrived damaged|customer request|policy change|illness|maintenance"""
)
FILES: Final = _bank(
    """report.pdf|photo1.jpg|data.csv|notes.txt|slides.pptx|budget_2026.xlsx|logo.png|backup.zip|recording.mp3|
    contract.docx|/home/anna/scan.png|uploads/video.mp4"""
)
COLOURS: Final = _bank("red|blue|green|black|white|yellow|purple|orange|grey|navy")
ANIMALS: Final = _bank("dog|cat|horse|lion|elephant|rabbit|salmon|eagle|dolphin|honey bee|cow")
FOODS: Final = _bank("pasta|chicken curry|tomato soup|sushi|lentil stew|apple pie|tacos|mushroom risotto|Greek salad")
DISEASES: Final = _bank("diabetes|asthma|migraine|influenza|hypertension|arthritis|anemia|malaria")
DRUGS: Final = _bank("ibuprofen|aspirin|metformin|paracetamol|amoxicillin|insulin|penicillin")
SPORTS: Final = _bank("football|tennis|swimming|basketball|cycling|volleyball|rugby|hockey")
SUBJECTS: Final = _bank("physics|biology|history|economics|chemistry|mathematics|philosophy|geography|psychology")
GENRES: Final = _bank("jazz|rock|thriller|comedy|science fiction|drama|romance|folk|horror|classical")
MATERIALS: Final = _bank("steel|concrete|oak|aluminium|cotton|glass|copper|ceramic|polyester|carbon fiber")
JOBS: Final = _bank(
    "nurse|data analyst|teacher|project manager|electrician|software engineer|architect|chef|accountant"
)
TEAMS: Final = _bank("marketing|finance|sales|human resources|engineering|support|logistics|legal")
TAGS: Final = _bank("urgent|work|travel|home|draft|family|archive|q4|vip|beta|health|garden")
PERIODS: Final = _bank("the last week|last month|the past year|2019-2021|the last 30 days|this quarter|summer 2025")
ZONES: Final = _bank("Europe/Berlin|America/New_York|Asia/Tokyo|Europe/London|Australia/Sydney|America/Sao_Paulo|UTC")
CODES: Final = _bank(
    "DE|US|JP|BR|FR|IN|ES|IT|SE|NL|PL|KE|CA|GBR|USA|FRA|ESP|en-US|de-DE|fr-FR|en|es|LHR|JFK|CDG|MAD|FCO"
)
MONTHS: Final = _bank("January|February|March|April|May|June|July|August|September|October|November|December")
WEEKDAYS: Final = _bank("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
SLUGS: Final = _bank(
    """prod-eu-1|web-frontend|billing|team-alpha|staging|orders-db|my-first-app|analytics|nightly-backup|shop-api|
    data-pipeline|north-cluster|demo|invoices-2026|mobile-app|sandbox-2|payments|media-store|legacy-erp|test-run-7"""
)
THINGS: Final = _bank(
    """Aurora|Riverside|Blue Harbor|Nova|Titan|Maple Grove|Eagle|Phoenix|Atlas|Horizon|Cedar Hill|Stonebridge|Silver
    Lake| North Star|Orion|Sunrise|Falcon|Golden Gate|Evergreen|Delta
    One|Lighthouse|Redwood|Vega|Summit|Pinewood|Meridian"""
)
PHRASES: Final = _bank(
    """lower costs by ten percent|keep it short|indoor use only|no known allergies|weekly review|two-step
    approval|extra care with glass|phase one only|no overtime|gluten free|as few changes as possible|quiet
    surroundings|remote work only|high contrast|at least two references|no animal testing|early delivery|local
    suppliers first|window seat|mild climate"""
)
LEVELS: Final = _bank("low|medium|high")
USERS: Final = _bank("jdoe|anna_w|sam.lee|k_tanaka|maria88|devops-bot|paul_m|nina.rossi|the_real_tom|lchen")

_ABOUT: Final[dict[str, tuple[str, ...]]] = {
    "city town location place origin destination airport": CITIES,
    "country nation": COUNTRIES,
    "state region province area": STATES,
    "address street": STREETS,
    "venue room": PLACES,
    "company brand organization organisation manufacturer vendor supplier client": COMPANIES,
    "product item": PRODUCTS,
    "language": LANGUAGES,
    "currency": CURRENCIES,
    "topic keyword": TOPICS,
    "subject course": SUBJECTS,
    "color colour": COLOURS,
    "animal species breed": ANIMALS,
    "food dish recipe ingredient": FOODS,
    "disease condition diagnosis": DISEASES,
    "drug medication medicine": DRUGS,
    "sport": SPORTS,
    "genre": GENRES,
    "material": MATERIALS,
    "job occupation position role": JOBS,
    "department team": TEAMS,
    "tag label category": TAGS,
    "timezone zone": ZONES,
    "reason": REASONS,
    "file filename path document image photo": FILES,
    "username login handle": USERS,
    "period": PERIODS,
    "deadline": _bank("Friday|2026-05-01|the end of the month|June 30, 2026|tomorrow night"),
    "book song movie film album event campaign project playlist title headline game": TITLES,
    "severity priority urgency importance risk": LEVELS,
    "instruction requirement constraint criterion detail strategy procedure policy preference": PHRASES,
    "need specification observation finding history term request restriction rule": PHRASES,
    "difficulty": _bank("easy|medium|hard|beginner|advanced"),
    "level": _bank("beginner|intermediate|advanced|basic"),
    "status": _bank("active|pending|completed|cancelled|open|closed|approved"),
    "gender sex": _bank("male|female"),
    "format": _bank("PDF|CSV|JSON|XML|HTML"),
    "style": _bank("modern|classic|minimalist|rustic"),
    "size": _bank("small|medium|large"),
    "platform": _bank("Instagram|Android|YouTube|Windows|Facebook|iOS|Steam"),
    "frequency": _bank("daily|weekly|monthly|hourly"),
    "type": _bank("standard|premium|basic|custom|annual|general|full"),
    "mode": _bank("automatic|manual|fast|silent"),
    "season": _bank("spring|summer|autumn|winter"),
    "weather": _bank("sunny|rainy|cloudy|windy"),
    "cuisine": _bank("Italian|Thai|Mexican|Indian|Greek"),
    "airline": _bank("Lufthansa|Delta|Emirates|KLM|Qatar Airways"),
    "instrument": _bank("guitar|piano|violin|drums"),
    "audience target": _bank("students|young adults|parents|small businesses|teenagers"),
    "unit": _bank("kilograms|miles|meters"),
    "plan": _bank("basic|pro|enterprise|family"),
    "method": _bank("linear regression|air|credit card|manual review|random sampling|email"),
    "tool": _bank("Excel|Python|Tableau|Figma|a microscope"),
    "skill": _bank("Python|public speaking|welding|cooking"),
    "mood": _bank("happy|calm|tired|anxious"),
    "texture": _bank("smooth|rough|silky"),
    "theme": _bank("nature|winter|space|the sea"),
    "equipment": _bank("skis|a projector|two microphones|safety gear"),
    "password": _bank("hunter22|Tr0ub4dor|s3cret!9|qwe987"),
    "goal": _bank("weight loss|more sales|lower costs|better sleep"),
    "symptom": _bank("headache|fever|cough|rash"),
    "plant": _bank("tomato|rose|basil|oak"),
    "crop": _bank("wheat|maize|rice|soy"),
    "ip": _bank("192.168.1.17|10.0.4.21|203.0.113.9"),
    "iban": _bank("DE89 3704 0044 0532 0130 00|GB29NWBK60161331926819|FR1420041010050500013M02606"),
    "hobby": _bank("painting|hiking|chess"),
    "payment": _bank("credit card|PayPal|bank transfer|cash"),
    "feature": _bank("a balcony|dark mode|free parking|GPS"),
    "pollutant": _bank("lead|mercury|nitrates|microplastics"),
    "model": _bank("Model S|Galaxy S21|linear regression|XR-200|Corolla"),
    "system": _bank("billing|heating|Linux|navigation"),
    "issue problem": _bank("no sound|login fails|a broken screen|slow network|a water leak"),
    "service": _bank("cleaning|delivery|translation|hosting"),
    "industry": _bank("retail|healthcare|tourism|agriculture"),
    "market": _bank("Europe|the US|Asia|online retail"),
    "domain": _bank("example.com|acme.org|nordwind.io"),
    "data": _bank("sales figures|sensor readings|survey answers|temperature logs"),
    "field": _bank("oncology|robotics|law|archaeology"),
}
BY_WORD: Final = {word: bank for words, bank in _ABOUT.items() for word in words.split()}
"""Banks by the noun that describes a parameter."""

PEOPLE: Final = word_set(
    """
    author user customer employee patient artist person contact doctor student teacher owner recipient sender
    guest driver actor director client member assignee attendee participant host instructor player candidate
    applicant agent editor manager reviewer architect lawyer nurse professor scientist researcher journalist
    politician musician coach chef engineer designer caller callee borrower lender buyer seller tenant landlord
    witness defendant judge composer philosopher poet dentist stylist therapist provider spouse technician trainer
    speaker performer singer writer worker volunteer donor
    """
)
"""Nouns for people, which have names."""

SIZES: Final[dict[str, tuple[int, int]]] = {
    "age": (18, 80), "year": (1990, 2027), "month": (1, 12), "day": (1, 28), "hour": (1, 23), "minute": (5, 90),
    "guest": (1, 8), "people": (1, 12), "person": (1, 8), "adult": (1, 4), "child": (1, 4), "children": (1, 4),
    "quantity": (1, 20), "count": (1, 50), "limit": (5, 100), "page": (1, 9), "size": (5, 100), "rating": (1, 5),
    "price": (5, 2000), "amount": (10, 9000), "budget": (100, 50000), "cost": (5, 5000), "salary": (20000, 120000),
    "income": (20000, 150000), "fee": (5, 300), "rate": (1, 20), "percent": (1, 95), "percentage": (1, 95),
    "weight": (1, 120), "height": (40, 210), "distance": (1, 900), "radius": (1, 50), "temperature": (-10, 40),
    "speed": (5, 200), "length": (1, 300), "width": (1, 300), "depth": (1, 100), "volume": (1, 500),
    "duration": (5, 180), "days": (1, 30), "weeks": (1, 12), "months": (1, 24), "years": (1, 30), "term": (1, 30),
    "latitude": (-60, 70), "longitude": (-170, 170), "level": (1, 10), "version": (1, 9), "score": (1, 100),
    "priority": (1, 5), "ph": (1, 14), "grade": (1, 12), "bedrooms": (1, 5), "floor": (1, 20), "floors": (1, 20),
    "ratio": (1, 10), "number": (1, 40), "velocity": (5, 200), "frequency": (1, 60), "pressure": (1, 300),
    "port": (1024, 9999), "population": (1000, 900000), "seats": (1, 8), "tickets": (1, 8), "passengers": (1, 6),
}  # fmt: skip
"""Usual ranges of numbers, by noun."""
