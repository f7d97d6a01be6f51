"""The codes that a table's names are looked up to: the commonest allergens, reactions, documents.

Each line is a code, FHIR's display of it, and after `|` what else it is called. A wrong code can
hurt somebody, so only codes that stand with their names in these sources are here:
SNOMED CT: MyHealth@EU's value sets of allergens and reactions, HL7's US Core examples and Synthea.
RxNorm, by ingredient: CPIC's table of drugs, and Synthea.
LOINC: FHIR R4's value set c80-doc-typecodes.
"""

ALLERGENS = """
762952008 Peanut | peanuts, groundnut, groundnuts
13577000 Nut | nuts
442571000124108 Tree nut | tree nuts
256350002 Almond | almonds
256351003 Brazil nut | brazil nuts
227493005 Cashew nut | cashew, cashews, cashew nuts
256353000 Hazelnut | hazelnuts
227501001 Macadamia nut | macadamia, macadamia nuts
260189007 Pecan nut | pecan, pecans
227511008 Pine nut | pine nuts
227512001 Pistachio nut | pistachio, pistachios
256352005 Walnut - nut | walnut, walnuts
260167008 Sesame seed | sesame, sesame seeds
51905005 Mustard
256326004 Celery
256355007 Soyabean | soy, soya, soybean, soybeans, soya bean
412071004 Wheat
89811004 Gluten
67324005 Rice
412357001 Corn | maize
102263004 Eggs (edible) | egg, eggs
256443002 Egg white
3718001 Cow's milk | cow milk, cows milk
264295007 Cow's milk protein
47703008 Lactose
735971005 Fish
735029006 Shellfish
278840001 Shrimp | shrimps
227151004 Prawns | prawn
736159005 Crab
736162008 Lobster
227150003 Mussel | mussels
736031006 Oyster | oysters
102261002 Strawberry | strawberries
260176001 Kiwi fruit | kiwi, kiwis
256307007 Banana | bananas
735215001 Apple | apples
735049002 Peach | peaches
735249009 Avocado
734881000 Tomato | tomatoes
260179008 Mango fruit | mango
256313003 Pineapple
102259006 Citrus fruit | citrus, citrus fruits
102262009 Chocolate
735030001 Garlic
227598003 Honey
75665004 Monosodium glutamate | MSG
256259004 Pollen
256277009 Grass pollen
782576004 Tree pollen
256303006 Ragweed pollen | ragweed
256293000 Mugwort pollen | mugwort
128488006 House dust
260147004 House dust mite | dust mite, dust mites, house dust mites
264287008 Animal dander | pet dander
260152009 Cat dander
260154005 Dog dander
256417003 Horse dander
256435007 Feather | feathers
84489001 Mold | mould, molds, moulds
288328004 Bee venom | bee sting, bee stings
256440004 Wasp venom | wasp sting, wasp stings
288326000 Hornet venom
773757000 Ant venom
111088007 Latex
33396006 Nickel
418920007 Adhesive agent | adhesive
418785009 Perfume
111095003 Formaldehyde
42416001 Lanolin
412161004 Wool
385420005 Contrast media | contrast medium, contrast dye, iv contrast
373568007 Chlorhexidine
764146007 Penicillin | penicillins
763875007 Product containing sulfonamide | sulfa, sulfa drugs, sulfonamide, sulfonamides
836377006 Influenza virus antigen-containing vaccine product | influenza vaccine, flu vaccine
"""

DRUGS = """
723 amoxicillin
733 ampicillin
7984 penicillin V
2176 cefaclor
2180 cefazolin
25037 cefdinir
20481 cefepime
25033 cefixime
2189 cefoxitin
2191 ceftazidime
2193 ceftriaxone
2194 cefuroxime
2231 cephalexin | cefalexin
10831 sulfamethoxazole / trimethoprim | sulfamethoxazole-trimethoprim, co-trimoxazole, cotrimoxazole
10171 sulfadiazine
9524 sulfasalazine
2551 ciprofloxacin
82122 levofloxacin
139462 moxifloxacin
4053 erythromycin
7454 nitrofurantoin
11124 vancomycin
1191 aspirin | acetylsalicylic acid
140587 celecoxib
3355 diclofenac
5640 ibuprofen
7258 naproxen
2670 codeine
4337 fentanyl
6813 methadone
7052 morphine
7804 oxycodone
10689 tramadol
6387 lidocaine | lignocaine
18867 benazepril
1998 captopril
3827 enalapril
29046 lisinopril
35208 quinapril
35296 ramipril
6918 metoprolol
8787 propranolol
4603 furosemide
5487 hydrochlorothiazide
83367 atorvastatin
42463 pravastatin
301542 rosuvastatin
36567 simvastatin
6809 metformin
519 allopurinol
704 amitriptyline
2002 carbamazepine
28439 lamotrigine
8183 phenytoin
11118 valproic acid
4493 fluoxetine
36437 sertraline
5093 haloperidol
6851 methotrexate
6915 metoclopramide
26225 ondansetron
7646 omeprazole
40790 pantoprazole
32968 clopidogrel
11289 warfarin
"""

REACTIONS = """
261665006 Unknown
39579001 Anaphylaxis | anaphylactic reaction, anaphylactic shock
41291007 Angioedema
195967001 Asthma
24079001 Atopic dermatitis
4386001 Bronchospasm
9826008 Conjunctivitis
40275004 Contact dermatitis
49727002 Cough | coughing
62315008 Diarrhea | diarrhoea
404640003 Dizziness
267036007 Dyspnea | dyspnoea, shortness of breath
43116000 Eczema
51599000 Edema of larynx | laryngeal edema, laryngeal oedema
2129002 Edema of pharynx
271807003 Eruption of skin | rash, skin rash
247441003 Erythema
271811009 Face goes red
386661006 Fever
418290006 Itching | pruritus
74776002 Itching of eye | itchy eyes
418363000 Itching of skin | itchy skin
68962001 Muscle pain | myalgia
422587007 Nausea
267101005 Nose running | runny nose
64144002 Pruritic rash | itchy rash
70076002 Rhinitis
878820003 Rhinoconjunctivitis
91175000 Seizure | seizures
76067001 Sneezing
73442001 Stevens-Johnson syndrome
21522001 Abdominal pain | stomach pain
23924001 Tight chest | chest tightness
421262002 Tongue swelling | swelling of tongue
126485001 Urticaria | hives
422400008 Vomiting
247472004 Weal | wheal
56018004 Wheezing
"""

DOCUMENTS = """
11488-4 Consult note | consultation note
18842-5 Discharge summary
34117-2 History and physical note | history and physical
28570-0 Procedure note
11506-3 Progress note
11504-8 Surgical operation note | operation note, operative note
11502-2 Laboratory report | lab report
11526-1 Pathology study | pathology report
18748-4 Diagnostic imaging study | imaging report, radiology report
34111-5 Emergency department Note
51847-2 Evaluation + Plan note | assessment and plan
57133-1 Referral note
34133-9 Summary of episode note
34746-8 Nurse Note | nursing note
34748-4 Telephone encounter Note
34108-1 Outpatient Note
34109-9 Note
51848-0 Assessment note
51852-2 Letter
59284-0 Patient Consent | consent
60591-5 Patient summary Document | patient summary
48765-2 Allergies and adverse reactions Document
55107-7 Addendum Document | addendum
69981-9 Asthma action plan
74152-0 Anaphylaxis action plan
51851-4 Administrative note
"""
