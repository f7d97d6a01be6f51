CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);

CREATE TABLE allergy_intolerance (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
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

CREATE INDEX ix_allergy_intolerance_history ON allergy_intolerance (last_updated, pk);

CREATE INDEX ix_allergy_intolerance_newest ON allergy_intolerance (last_updated, id) WHERE is_current;

CREATE INDEX ix_allergy_intolerance_patient ON allergy_intolerance (patient_id, last_updated, id, is_current);

CREATE INDEX ix_allergy_intolerance_replaced ON allergy_intolerance (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_allergy_intolerance_source ON allergy_intolerance (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE allergy_intolerance_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_allergy_intolerance_date ON allergy_intolerance_date (param, low, pk, high);

CREATE INDEX ix_allergy_intolerance_date_long ON allergy_intolerance_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE allergy_intolerance_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_allergy_intolerance_reference ON allergy_intolerance_reference (param, target_id, pk, target_type);

CREATE TABLE allergy_intolerance_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_allergy_intolerance_string ON allergy_intolerance_string (param, folded, pk, exact);

CREATE TABLE allergy_intolerance_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_allergy_intolerance_token ON allergy_intolerance_token (param, code, pk, system);

CREATE VIRTUAL TABLE "allergy_intolerance_words" USING
        fts5(narrative, content, content='', tokenize='ascii');

CREATE TABLE auth_attempt (
	digest BLOB NOT NULL,
	times INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	PRIMARY KEY (digest)
);

CREATE INDEX ix_auth_attempt_expires_at ON auth_attempt (expires_at);

CREATE TABLE auth_identity (
	issuer VARCHAR NOT NULL,
	subject VARCHAR NOT NULL,
	user_id VARCHAR,
	name VARCHAR NOT NULL,
	username VARCHAR NOT NULL,
	seen_at INTEGER NOT NULL,
	PRIMARY KEY (issuer, subject),
	FOREIGN KEY(user_id) REFERENCES auth_user (id)
);

CREATE INDEX ix_auth_identity_user_id ON auth_identity (user_id);

CREATE TABLE auth_recovery_code (
	hash VARCHAR NOT NULL,
	user_id VARCHAR NOT NULL,
	PRIMARY KEY (hash),
	FOREIGN KEY(user_id) REFERENCES auth_user (id)
);

CREATE INDEX ix_auth_recovery_code_user_id ON auth_recovery_code (user_id);

CREATE TABLE auth_refusal (
	request_id VARCHAR NOT NULL,
	at INTEGER NOT NULL,
	client_id VARCHAR NOT NULL,
	user_id VARCHAR,
	status INTEGER NOT NULL,
	asked VARCHAR NOT NULL,
	reasons JSON NOT NULL,
	PRIMARY KEY (request_id)
);

CREATE INDEX ix_auth_refusal_at ON auth_refusal (at);

CREATE INDEX ix_auth_refusal_client_id ON auth_refusal (client_id);

CREATE TABLE auth_session (
	id VARCHAR NOT NULL,
	digest BLOB NOT NULL,
	user_id VARCHAR NOT NULL,
	complete BOOLEAN NOT NULL,
	signed_in_at INTEGER NOT NULL,
	used_at INTEGER NOT NULL,
	ended_at INTEGER,
	address VARCHAR,
	browser VARCHAR,
	issuer VARCHAR,
	several_factors BOOLEAN NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (digest),
	FOREIGN KEY(user_id) REFERENCES auth_user (id)
);

CREATE INDEX ix_auth_session_used_at ON auth_session (used_at);

CREATE INDEX ix_auth_session_user_id ON auth_session (user_id);

CREATE TABLE auth_setup_code (
	digest BLOB NOT NULL,
	user_id VARCHAR,
	expires_at INTEGER NOT NULL,
	PRIMARY KEY (digest),
	FOREIGN KEY(user_id) REFERENCES auth_user (id)
);

CREATE TABLE auth_user (
	id VARCHAR NOT NULL,
	username VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	role VARCHAR NOT NULL,
	password_hash VARCHAR NOT NULL,
	totp_secret BLOB,
	totp_used INTEGER NOT NULL,
	fhir_user VARCHAR,
	disabled BOOLEAN NOT NULL,
	created_at INTEGER NOT NULL,
	signed_in_at INTEGER,
	PRIMARY KEY (id),
	UNIQUE (username)
);

CREATE TABLE auth_user_patient (
	user_id VARCHAR NOT NULL,
	patient_id VARCHAR NOT NULL,
	is_self BOOLEAN NOT NULL,
	related_person VARCHAR,
	PRIMARY KEY (user_id, patient_id),
	FOREIGN KEY(user_id) REFERENCES auth_user (id)
);

CREATE INDEX ix_auth_user_patient_patient_id ON auth_user_patient (patient_id);

CREATE TABLE binary (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
	meta JSON,
	content_type VARCHAR,
	security_context JSON,
	data BLOB,
	size INTEGER,
	hash VARCHAR,
	words VARCHAR,
	extra JSON,
	digest BLOB,
	body BLOB,
	machine_read VARCHAR,
	PRIMARY KEY (pk),
	CONSTRAINT uq_binary_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_binary_current ON binary (id) WHERE is_current;

CREATE INDEX ix_binary_history ON binary (last_updated, pk);

CREATE INDEX ix_binary_newest ON binary (last_updated, id) WHERE is_current;

CREATE INDEX ix_binary_patient ON binary (patient_id, last_updated, id, is_current);

CREATE INDEX ix_binary_replaced ON binary (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_binary_source ON binary (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE binary_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_binary_date ON binary_date (param, low, pk, high);

CREATE INDEX ix_binary_date_long ON binary_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE binary_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_binary_reference ON binary_reference (param, target_id, pk, target_type);

CREATE TABLE binary_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_binary_string ON binary_string (param, folded, pk, exact);

CREATE TABLE binary_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_binary_token ON binary_token (param, code, pk, system);

CREATE TABLE diagnostic_report (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
	meta JSON,
	text JSON,
	identifier JSON,
	status VARCHAR,
	category JSON,
	code JSON,
	subject JSON,
	encounter JSON,
	effective_date_time VARCHAR,
	effective_period JSON,
	issued VARCHAR,
	performer JSON,
	presented_form JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_diagnostic_report_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_diagnostic_report_current ON diagnostic_report (id) WHERE is_current;

CREATE INDEX ix_diagnostic_report_history ON diagnostic_report (last_updated, pk);

CREATE INDEX ix_diagnostic_report_newest ON diagnostic_report (last_updated, id) WHERE is_current;

CREATE INDEX ix_diagnostic_report_patient ON diagnostic_report (patient_id, last_updated, id, is_current);

CREATE INDEX ix_diagnostic_report_replaced ON diagnostic_report (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_diagnostic_report_source ON diagnostic_report (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE diagnostic_report_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_diagnostic_report_date ON diagnostic_report_date (param, low, pk, high);

CREATE INDEX ix_diagnostic_report_date_long ON diagnostic_report_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE diagnostic_report_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_diagnostic_report_reference ON diagnostic_report_reference (param, target_id, pk, target_type);

CREATE TABLE diagnostic_report_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_diagnostic_report_string ON diagnostic_report_string (param, folded, pk, exact);

CREATE TABLE diagnostic_report_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_diagnostic_report_token ON diagnostic_report_token (param, code, pk, system);

CREATE TABLE document_reference (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
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
	attached JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_document_reference_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_document_reference_current ON document_reference (id) WHERE is_current;

CREATE INDEX ix_document_reference_history ON document_reference (last_updated, pk);

CREATE INDEX ix_document_reference_newest ON document_reference (last_updated, id) WHERE is_current;

CREATE INDEX ix_document_reference_patient ON document_reference (patient_id, last_updated, id, is_current);

CREATE INDEX ix_document_reference_replaced ON document_reference (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_document_reference_source ON document_reference (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE document_reference_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_document_reference_date ON document_reference_date (param, low, pk, high);

CREATE INDEX ix_document_reference_date_long ON document_reference_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE document_reference_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_document_reference_reference ON document_reference_reference (param, target_id, pk, target_type);

CREATE TABLE document_reference_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_document_reference_string ON document_reference_string (param, folded, pk, exact);

CREATE TABLE document_reference_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_document_reference_token ON document_reference_token (param, code, pk, system);

CREATE VIRTUAL TABLE "document_reference_words" USING
        fts5(narrative, content, content='', tokenize='ascii');

CREATE TABLE encounter (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
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

CREATE INDEX ix_encounter_history ON encounter (last_updated, pk);

CREATE INDEX ix_encounter_newest ON encounter (last_updated, id) WHERE is_current;

CREATE INDEX ix_encounter_patient ON encounter (patient_id, last_updated, id, is_current);

CREATE INDEX ix_encounter_replaced ON encounter (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_encounter_source ON encounter (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE encounter_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_encounter_date ON encounter_date (param, low, pk, high);

CREATE INDEX ix_encounter_date_long ON encounter_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE encounter_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_encounter_reference ON encounter_reference (param, target_id, pk, target_type);

CREATE TABLE encounter_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_encounter_string ON encounter_string (param, folded, pk, exact);

CREATE TABLE encounter_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_encounter_token ON encounter_token (param, code, pk, system);

CREATE TABLE fhir_group (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
	meta JSON,
	text JSON,
	identifier JSON,
	active BOOLEAN,
	type VARCHAR,
	actual BOOLEAN,
	code JSON,
	name VARCHAR,
	quantity INTEGER,
	managing_entity JSON,
	characteristic JSON,
	member JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_fhir_group_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_fhir_group_current ON fhir_group (id) WHERE is_current;

CREATE INDEX ix_fhir_group_history ON fhir_group (last_updated, pk);

CREATE INDEX ix_fhir_group_newest ON fhir_group (last_updated, id) WHERE is_current;

CREATE INDEX ix_fhir_group_patient ON fhir_group (patient_id, last_updated, id, is_current);

CREATE INDEX ix_fhir_group_replaced ON fhir_group (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_fhir_group_source ON fhir_group (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE fhir_group_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_fhir_group_date ON fhir_group_date (param, low, pk, high);

CREATE INDEX ix_fhir_group_date_long ON fhir_group_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE fhir_group_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_fhir_group_reference ON fhir_group_reference (param, target_id, pk, target_type);

CREATE TABLE fhir_group_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_fhir_group_string ON fhir_group_string (param, folded, pk, exact);

CREATE TABLE fhir_group_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_fhir_group_token ON fhir_group_token (param, code, pk, system);

CREATE TABLE import_run (
	id INTEGER NOT NULL,
	inputs JSON NOT NULL,
	who VARCHAR NOT NULL,
	source_id INTEGER,
	began_at VARCHAR NOT NULL,
	ended_at VARCHAR,
	last_rows JSON NOT NULL,
	outcome JSON,
	PRIMARY KEY (id)
);

CREATE TABLE import_shared (
	source_id INTEGER NOT NULL,
	type VARCHAR NOT NULL,
	id VARCHAR NOT NULL,
	PRIMARY KEY (source_id, type, id)
);

CREATE TABLE import_source (
	id INTEGER NOT NULL,
	name VARCHAR NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (name)
);

CREATE TABLE job (
	number INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	owner VARCHAR NOT NULL,
	state VARCHAR NOT NULL,
	created_at INTEGER NOT NULL,
	ended_at INTEGER,
	expires_at INTEGER,
	attempts INTEGER NOT NULL,
	free_attempts INTEGER NOT NULL,
	lease_until INTEGER,
	stop_requests INTEGER NOT NULL,
	request JSON NOT NULL,
	progress JSON NOT NULL,
	error VARCHAR,
	schedule VARCHAR,
	PRIMARY KEY (number),
	UNIQUE (id)
);

CREATE INDEX ix_job_expires_at ON job (expires_at);

CREATE INDEX ix_job_kind_owner ON job (kind, owner);

CREATE INDEX ix_job_schedule_number ON job (schedule, number);

CREATE UNIQUE INDEX ix_job_schedule_under_way ON job (schedule) WHERE state IN ('queued', 'running');

CREATE TABLE lesson_class (
	id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	teacher_id VARCHAR,
	created_at INTEGER NOT NULL,
	ends_at INTEGER NOT NULL,
	lessons JSON,
	PRIMARY KEY (id),
	UNIQUE (code),
	FOREIGN KEY(teacher_id) REFERENCES auth_user (id) ON DELETE SET NULL
);

CREATE INDEX ix_lesson_class_ends_at ON lesson_class (ends_at);

CREATE TABLE lesson_learner (
	user_id VARCHAR NOT NULL,
	class_id VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	code_digest BLOB NOT NULL,
	client_id VARCHAR NOT NULL,
	patient_user_id VARCHAR NOT NULL,
	joined_at INTEGER NOT NULL,
	PRIMARY KEY (user_id),
	UNIQUE (class_id, folded),
	FOREIGN KEY(user_id) REFERENCES auth_user (id),
	FOREIGN KEY(class_id) REFERENCES lesson_class (id),
	UNIQUE (code_digest),
	FOREIGN KEY(client_id) REFERENCES oauth_client (client_id),
	FOREIGN KEY(patient_user_id) REFERENCES auth_user (id)
);

CREATE TABLE lesson_progress (
	user_id VARCHAR NOT NULL,
	lesson VARCHAR NOT NULL,
	began_at VARCHAR NOT NULL,
	done_at VARCHAR,
	hints INTEGER NOT NULL,
	met JSON NOT NULL,
	PRIMARY KEY (user_id, lesson),
	FOREIGN KEY(user_id) REFERENCES auth_user (id) ON DELETE CASCADE
);

CREATE TABLE oauth_access_token (
	digest BLOB NOT NULL,
	client_id VARCHAR NOT NULL,
	grant_id VARCHAR,
	scope VARCHAR NOT NULL,
	patient_id VARCHAR,
	issued_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	revoked BOOLEAN NOT NULL,
	PRIMARY KEY (digest),
	FOREIGN KEY(client_id) REFERENCES oauth_client (client_id),
	FOREIGN KEY(grant_id) REFERENCES oauth_grant (id)
);

CREATE INDEX ix_oauth_access_token_client_id ON oauth_access_token (client_id);

CREATE INDEX ix_oauth_access_token_expires_at ON oauth_access_token (expires_at);

CREATE INDEX ix_oauth_access_token_grant_id ON oauth_access_token (grant_id);

CREATE TABLE oauth_client (
	client_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	auth_method VARCHAR NOT NULL,
	secret_digest BLOB,
	jwks JSON,
	jwks_uri VARCHAR,
	scope VARCHAR NOT NULL,
	redirect_uris JSON,
	launch_uri VARCHAR,
	developer VARCHAR,
	contact VARCHAR,
	registered_at INTEGER NOT NULL,
	approved_at INTEGER,
	owner_digest BLOB,
	disabled BOOLEAN NOT NULL,
	PRIMARY KEY (client_id),
	UNIQUE (owner_digest)
);

CREATE TABLE oauth_code (
	digest BLOB NOT NULL,
	grant_id VARCHAR NOT NULL,
	client_id VARCHAR NOT NULL,
	redirect_uri VARCHAR NOT NULL,
	scope VARCHAR NOT NULL,
	nonce VARCHAR,
	code_challenge VARCHAR NOT NULL,
	expires_at INTEGER NOT NULL,
	used_at INTEGER,
	PRIMARY KEY (digest),
	FOREIGN KEY(grant_id) REFERENCES oauth_grant (id)
);

CREATE INDEX ix_oauth_code_expires_at ON oauth_code (expires_at);

CREATE TABLE oauth_grant (
	id VARCHAR NOT NULL,
	user_id VARCHAR NOT NULL,
	client_id VARCHAR NOT NULL,
	scope VARCHAR NOT NULL,
	patient_id VARCHAR,
	encounter_id VARCHAR,
	document_id VARCHAR,
	need_patient_banner BOOLEAN NOT NULL,
	signed_in_at INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	session_id VARCHAR,
	revoked_at INTEGER,
	PRIMARY KEY (id),
	FOREIGN KEY(user_id) REFERENCES auth_user (id),
	FOREIGN KEY(client_id) REFERENCES oauth_client (client_id)
);

CREATE INDEX ix_oauth_grant_client_id ON oauth_grant (client_id);

CREATE INDEX ix_oauth_grant_expires_at ON oauth_grant (expires_at);

CREATE INDEX ix_oauth_grant_session_id ON oauth_grant (session_id);

CREATE INDEX ix_oauth_grant_user_id ON oauth_grant (user_id);

CREATE TABLE oauth_launch (
	digest BLOB NOT NULL,
	client_id VARCHAR NOT NULL,
	user_id VARCHAR NOT NULL,
	patient_id VARCHAR NOT NULL,
	encounter_id VARCHAR,
	document_id VARCHAR,
	expires_at INTEGER NOT NULL,
	used_at INTEGER,
	PRIMARY KEY (digest),
	FOREIGN KEY(client_id) REFERENCES oauth_client (client_id),
	FOREIGN KEY(user_id) REFERENCES auth_user (id)
);

CREATE INDEX ix_oauth_launch_expires_at ON oauth_launch (expires_at);

CREATE TABLE oauth_origin (
	client_id VARCHAR NOT NULL,
	address VARCHAR NOT NULL,
	by_itself BOOLEAN NOT NULL,
	PRIMARY KEY (client_id),
	FOREIGN KEY(client_id) REFERENCES oauth_client (client_id) ON DELETE CASCADE
);

CREATE TABLE oauth_refresh_token (
	digest BLOB NOT NULL,
	grant_id VARCHAR NOT NULL,
	client_id VARCHAR NOT NULL,
	scope VARCHAR NOT NULL,
	issued_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	used_at INTEGER,
	PRIMARY KEY (digest),
	FOREIGN KEY(grant_id) REFERENCES oauth_grant (id)
);

CREATE INDEX ix_oauth_refresh_token_expires_at ON oauth_refresh_token (expires_at);

CREATE INDEX ix_oauth_refresh_token_grant_id ON oauth_refresh_token (grant_id);

CREATE TABLE oauth_request (
	digest BLOB NOT NULL,
	parameters JSON NOT NULL,
	user_id VARCHAR,
	patient_id VARCHAR,
	encounter_id VARCHAR,
	document_id VARCHAR,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	used_at INTEGER,
	PRIMARY KEY (digest)
);

CREATE INDEX ix_oauth_request_expires_at ON oauth_request (expires_at);

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
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
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

CREATE INDEX ix_organization_history ON organization (last_updated, pk);

CREATE INDEX ix_organization_newest ON organization (last_updated, id) WHERE is_current;

CREATE INDEX ix_organization_patient ON organization (patient_id, last_updated, id, is_current);

CREATE INDEX ix_organization_replaced ON organization (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_organization_source ON organization (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE organization_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_organization_date ON organization_date (param, low, pk, high);

CREATE INDEX ix_organization_date_long ON organization_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE organization_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_organization_reference ON organization_reference (param, target_id, pk, target_type);

CREATE TABLE organization_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_organization_string ON organization_string (param, folded, pk, exact);

CREATE TABLE organization_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_organization_token ON organization_token (param, code, pk, system);

CREATE TABLE patient (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
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

CREATE INDEX ix_patient_history ON patient (last_updated, pk);

CREATE INDEX ix_patient_newest ON patient (last_updated, id) WHERE is_current;

CREATE INDEX ix_patient_patient ON patient (patient_id, last_updated, id, is_current);

CREATE INDEX ix_patient_replaced ON patient (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_patient_source ON patient (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE patient_change (
	id INTEGER NOT NULL,
	kind VARCHAR NOT NULL,
	patient_id VARCHAR NOT NULL,
	reason VARCHAR NOT NULL,
	who VARCHAR NOT NULL,
	at VARCHAR NOT NULL,
	ended_at VARCHAR,
	digest BLOB,
	PRIMARY KEY (id)
);

CREATE INDEX ix_patient_change_patient_id ON patient_change (patient_id);

CREATE TABLE patient_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_patient_date ON patient_date (param, low, pk, high);

CREATE INDEX ix_patient_date_long ON patient_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE patient_merge (
	change_id INTEGER NOT NULL,
	target_id VARCHAR NOT NULL,
	accounts JSON NOT NULL,
	PRIMARY KEY (change_id)
);

CREATE INDEX ix_patient_merge_target_id ON patient_merge (target_id);

CREATE TABLE patient_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_patient_reference ON patient_reference (param, target_id, pk, target_type);

CREATE TABLE patient_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_patient_string ON patient_string (param, folded, pk, exact);

CREATE TABLE patient_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_patient_token ON patient_token (param, code, pk, system);

CREATE TABLE practitioner (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
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

CREATE INDEX ix_practitioner_history ON practitioner (last_updated, pk);

CREATE INDEX ix_practitioner_newest ON practitioner (last_updated, id) WHERE is_current;

CREATE INDEX ix_practitioner_patient ON practitioner (patient_id, last_updated, id, is_current);

CREATE INDEX ix_practitioner_replaced ON practitioner (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_practitioner_source ON practitioner (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE practitioner_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_practitioner_date ON practitioner_date (param, low, pk, high);

CREATE INDEX ix_practitioner_date_long ON practitioner_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE practitioner_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_practitioner_reference ON practitioner_reference (param, target_id, pk, target_type);

CREATE TABLE practitioner_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_practitioner_string ON practitioner_string (param, folded, pk, exact);

CREATE TABLE practitioner_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_practitioner_token ON practitioner_token (param, code, pk, system);

CREATE TABLE provenance (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
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

CREATE INDEX ix_provenance_history ON provenance (last_updated, pk);

CREATE INDEX ix_provenance_newest ON provenance (last_updated, id) WHERE is_current;

CREATE INDEX ix_provenance_patient ON provenance (patient_id, last_updated, id, is_current);

CREATE INDEX ix_provenance_replaced ON provenance (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_provenance_source ON provenance (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE provenance_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_provenance_date ON provenance_date (param, low, pk, high);

CREATE INDEX ix_provenance_date_long ON provenance_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE provenance_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_provenance_reference ON provenance_reference (param, target_id, pk, target_type);

CREATE TABLE provenance_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_provenance_string ON provenance_string (param, folded, pk, exact);

CREATE TABLE provenance_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_provenance_token ON provenance_token (param, code, pk, system);

CREATE TABLE related_person (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
	meta JSON,
	text JSON,
	identifier JSON,
	active BOOLEAN,
	patient JSON,
	relationship JSON,
	name JSON,
	telecom JSON,
	gender VARCHAR,
	birth_date VARCHAR,
	address JSON,
	photo JSON,
	period JSON,
	communication JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_related_person_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_related_person_current ON related_person (id) WHERE is_current;

CREATE INDEX ix_related_person_history ON related_person (last_updated, pk);

CREATE INDEX ix_related_person_newest ON related_person (last_updated, id) WHERE is_current;

CREATE INDEX ix_related_person_patient ON related_person (patient_id, last_updated, id, is_current);

CREATE INDEX ix_related_person_replaced ON related_person (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_related_person_source ON related_person (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE related_person_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_related_person_date ON related_person_date (param, low, pk, high);

CREATE INDEX ix_related_person_date_long ON related_person_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE related_person_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_related_person_reference ON related_person_reference (param, target_id, pk, target_type);

CREATE TABLE related_person_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_related_person_string ON related_person_string (param, folded, pk, exact);

CREATE TABLE related_person_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_related_person_token ON related_person_token (param, code, pk, system);

CREATE TABLE schedule (
	name VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	timing VARCHAR NOT NULL,
	options JSON NOT NULL,
	is_paused BOOLEAN NOT NULL,
	handled_at BIGINT NOT NULL,
	since VARCHAR,
	idle_at BIGINT,
	PRIMARY KEY (name)
);

CREATE TABLE server_secret (
	name VARCHAR NOT NULL,
	content BLOB NOT NULL,
	changed_at INTEGER NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE setting (
	name VARCHAR NOT NULL,
	value VARCHAR NOT NULL,
	changed_at INTEGER NOT NULL,
	changed_by VARCHAR NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE store_state (
	name VARCHAR NOT NULL,
	value VARCHAR NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE value_set (
	pk INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	version_id INTEGER NOT NULL,
	last_updated VARCHAR NOT NULL,
	is_current BOOLEAN DEFAULT FALSE NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	replaced_pk INTEGER,
	patient_id VARCHAR,
	source_id INTEGER,
	meta JSON,
	text JSON,
	compose JSON,
	expansion JSON,
	url VARCHAR,
	identifier JSON,
	version VARCHAR,
	name VARCHAR,
	title VARCHAR,
	status VARCHAR,
	date VARCHAR,
	publisher VARCHAR,
	description VARCHAR,
	jurisdiction JSON,
	extra JSON,
	digest BLOB,
	body BLOB,
	PRIMARY KEY (pk),
	CONSTRAINT uq_value_set_version UNIQUE (id, version_id)
);

CREATE UNIQUE INDEX ix_value_set_current ON value_set (id) WHERE is_current;

CREATE INDEX ix_value_set_history ON value_set (last_updated, pk);

CREATE INDEX ix_value_set_newest ON value_set (last_updated, id) WHERE is_current;

CREATE INDEX ix_value_set_patient ON value_set (patient_id, last_updated, id, is_current);

CREATE INDEX ix_value_set_replaced ON value_set (replaced_pk) WHERE replaced_pk IS NOT NULL;

CREATE INDEX ix_value_set_source ON value_set (source_id) WHERE is_current AND source_id IS NOT NULL;

CREATE TABLE value_set_date (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	low BIGINT NOT NULL,
	high BIGINT NOT NULL,
	PRIMARY KEY (pk, param, low, high)
)
 WITHOUT ROWID;

CREATE INDEX ix_value_set_date ON value_set_date (param, low, pk, high);

CREATE INDEX ix_value_set_date_long ON value_set_date (param, high, pk, low) WHERE high - low > 86400000;

CREATE TABLE value_set_reference (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	target_id VARCHAR NOT NULL,
	target_type VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, target_id, target_type)
)
 WITHOUT ROWID;

CREATE INDEX ix_value_set_reference ON value_set_reference (param, target_id, pk, target_type);

CREATE TABLE value_set_string (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	folded VARCHAR NOT NULL,
	exact VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, folded, exact)
)
 WITHOUT ROWID;

CREATE INDEX ix_value_set_string ON value_set_string (param, folded, pk, exact);

CREATE TABLE value_set_token (
	pk INTEGER NOT NULL,
	param VARCHAR NOT NULL,
	code VARCHAR NOT NULL,
	system VARCHAR NOT NULL,
	PRIMARY KEY (pk, param, code, system)
)
 WITHOUT ROWID;

CREATE INDEX ix_value_set_token ON value_set_token (param, code, pk, system);

INSERT INTO alembic_version VALUES ('0014');
