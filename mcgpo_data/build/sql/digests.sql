-- Places of decisions in hash order. Reads to_hash. One row per decision, in the order given.
SELECT ('0x' || left(sha256(getvariable('seed') || rollout_id || ':' || step), 15))::BIGINT AS digest
FROM to_hash;
