-- Who had a name before: whoever registers it anew is numbered on.
CREATE INDEX agents_by_former_name ON agents (name_key, registered_at) WHERE deleted_at IS NOT NULL;
