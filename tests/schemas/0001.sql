CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);

CREATE TABLE allergy_intolerance (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	text JSON,
	identifier JSON,
	clinical_status JSON,
	verification_status JSON,
	type VARCHAR,
	category JSON,
	criticality VARCHAR,
	code JSON,
	patient JSON,
	encounter JSON,
	onset_date_time VARCHAR,
	onset_period JSON,
	recorded_date VARCHAR,
	recorder JSON,
	asserter JSON,
	last_occurrence VARCHAR,
	note JSON,
	reaction JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_allergy_intolerance_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_allergy_intolerance_current ON allergy_intolerance (id) WHERE is_current;

CREATE INDEX ix_allergy_intolerance_newest ON allergy_intolerance (last_updated, id) WHERE is_current;

CREATE INDEX ix_allergy_intolerance_patient ON allergy_intolerance (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE allergy_intolerance_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_allergy_intolerance_date_range ON allergy_intolerance_date (param, low, high, pk);

CREATE TABLE allergy_intolerance_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE allergy_intolerance_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE binary (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	content_type VARCHAR,
	security_context JSON,
	data BLOB,
	size INTEGER,
	hash VARCHAR,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_binary_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_binary_current ON binary (id) WHERE is_current;

CREATE INDEX ix_binary_newest ON binary (last_updated, id) WHERE is_current;

CREATE INDEX ix_binary_patient ON binary (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE binary_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_binary_date_range ON binary_date (param, low, high, pk);

CREATE TABLE binary_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE binary_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE document_reference (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	text JSON,
	master_identifier JSON,
	identifier JSON,
	status VARCHAR,
	doc_status VARCHAR,
	type JSON,
	category JSON,
	subject JSON,
	date VARCHAR,
	author JSON,
	authenticator JSON,
	custodian JSON,
	relates_to JSON,
	description VARCHAR,
	security_label JSON,
	content JSON,
	context JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_document_reference_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_document_reference_current ON document_reference (id) WHERE is_current;

CREATE INDEX ix_document_reference_newest ON document_reference (last_updated, id) WHERE is_current;

CREATE INDEX ix_document_reference_patient ON document_reference (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE document_reference_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_document_reference_date_range ON document_reference_date (param, low, high, pk);

CREATE TABLE document_reference_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE document_reference_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE encounter (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	text JSON,
	identifier JSON,
	status VARCHAR,
	class JSON,
	type JSON,
	service_type JSON,
	priority JSON,
	subject JSON,
	episode_of_care JSON,
	participant JSON,
	appointment JSON,
	period JSON,
	length JSON,
	reason_code JSON,
	reason_reference JSON,
	diagnosis JSON,
	account JSON,
	hospitalization JSON,
	location JSON,
	service_provider JSON,
	part_of JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_encounter_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_encounter_current ON encounter (id) WHERE is_current;

CREATE INDEX ix_encounter_newest ON encounter (last_updated, id) WHERE is_current;

CREATE INDEX ix_encounter_patient ON encounter (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE encounter_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_encounter_date_range ON encounter_date (param, low, high, pk);

CREATE TABLE encounter_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE encounter_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE oauth_access_token (
	digest BLOB NOT NULL,
	client_id VARCHAR NOT NULL,
	scope VARCHAR NOT NULL,
	patient_id VARCHAR,
	issued_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	revoked BOOLEAN NOT NULL,
	PRIMARY KEY (digest),
	FOREIGN KEY(client_id) REFERENCES oauth_client (client_id)
);

CREATE INDEX ix_oauth_access_token_client_id ON oauth_access_token (client_id);

CREATE INDEX ix_oauth_access_token_expires_at ON oauth_access_token (expires_at);

CREATE TABLE oauth_client (
	client_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	auth_method VARCHAR NOT NULL,
	secret_digest BLOB,
	jwks JSON,
	scope VARCHAR NOT NULL,
	disabled BOOLEAN NOT NULL,
	PRIMARY KEY (client_id)
);

CREATE TABLE oauth_used_assertion (
	client_id VARCHAR NOT NULL,
	jti VARCHAR NOT NULL,
	expires_at INTEGER NOT NULL,
	PRIMARY KEY (client_id, jti)
);

CREATE INDEX ix_oauth_used_assertion_expires_at ON oauth_used_assertion (expires_at);

CREATE TABLE organization (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	text JSON,
	identifier JSON,
	active BOOLEAN,
	type JSON,
	name VARCHAR,
	alias JSON,
	telecom JSON,
	address JSON,
	part_of JSON,
	contact JSON,
	endpoint JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_organization_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_organization_current ON organization (id) WHERE is_current;

CREATE INDEX ix_organization_newest ON organization (last_updated, id) WHERE is_current;

CREATE INDEX ix_organization_patient ON organization (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE organization_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_organization_date_range ON organization_date (param, low, high, pk);

CREATE TABLE organization_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE organization_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE patient (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	text JSON,
	identifier JSON,
	active BOOLEAN,
	name JSON,
	telecom JSON,
	gender VARCHAR,
	birth_date VARCHAR,
	deceased_boolean BOOLEAN,
	deceased_date_time VARCHAR,
	address JSON,
	marital_status JSON,
	multiple_birth_boolean BOOLEAN,
	multiple_birth_integer INTEGER,
	photo JSON,
	contact JSON,
	communication JSON,
	general_practitioner JSON,
	managing_organization JSON,
	link JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_patient_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_patient_current ON patient (id) WHERE is_current;

CREATE INDEX ix_patient_newest ON patient (last_updated, id) WHERE is_current;

CREATE INDEX ix_patient_patient ON patient (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE patient_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_patient_date_range ON patient_date (param, low, high, pk);

CREATE TABLE patient_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE patient_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE practitioner (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	text JSON,
	identifier JSON,
	active BOOLEAN,
	name JSON,
	telecom JSON,
	address JSON,
	gender VARCHAR,
	birth_date VARCHAR,
	photo JSON,
	qualification JSON,
	communication JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_practitioner_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_practitioner_current ON practitioner (id) WHERE is_current;

CREATE INDEX ix_practitioner_newest ON practitioner (last_updated, id) WHERE is_current;

CREATE INDEX ix_practitioner_patient ON practitioner (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE practitioner_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_practitioner_date_range ON practitioner_date (param, low, high, pk);

CREATE TABLE practitioner_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE practitioner_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE provenance (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	patient_id VARCHAR,
	meta JSON,
	text JSON,
	target JSON,
	occurred_period JSON,
	occurred_date_time VARCHAR,
	recorded VARCHAR,
	policy JSON,
	location JSON,
	reason JSON,
	activity JSON,
	agent JSON,
	entity JSON,
	signature JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_provenance_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_provenance_current ON provenance (id) WHERE is_current;

CREATE INDEX ix_provenance_newest ON provenance (last_updated, id) WHERE is_current;

CREATE INDEX ix_provenance_patient ON provenance (patient_id, last_updated, id) WHERE is_current;

CREATE TABLE provenance_date (
	param VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (param, pk, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_provenance_date_range ON provenance_date (param, low, high, pk);

CREATE TABLE provenance_reference (
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (param, target_id, pk, target_type)
)
 WITHOUT ROWID;

CREATE TABLE provenance_token (
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	pk INTEGER NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (param, code, pk, system)
)
 WITHOUT ROWID;

CREATE TABLE store_state (
	name VARCHAR NOT NULL,
	value VARCHAR NOT NULL,
	PRIMARY KEY (name)
);

INSERT INTO alembic_version VALUES ('0001');
