SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA tally;
CREATE TABLE tally.cells (
    series bigint NOT NULL,
    bucket bigint NOT NULL,
    added bigint NOT NULL,
    subbed bigint NOT NULL,
    updated bigint NOT NULL,
    expires bigint,
    start bigint,
    lane integer NOT NULL,
    due integer
)
PARTITION BY LIST (lane);
CREATE TABLE tally.cells_0 (
    series bigint NOT NULL,
    bucket bigint NOT NULL,
    added bigint NOT NULL,
    subbed bigint NOT NULL,
    updated bigint NOT NULL,
    expires bigint,
    start bigint,
    lane integer NOT NULL,
    due integer
)
WITH (fillfactor='75');
CREATE TABLE tally.cells_1 (
    series bigint NOT NULL,
    bucket bigint NOT NULL,
    added bigint NOT NULL,
    subbed bigint NOT NULL,
    updated bigint NOT NULL,
    expires bigint,
    start bigint,
    lane integer NOT NULL,
    due integer
)
WITH (fillfactor='75');
CREATE TABLE tally.commits (
    lane integer NOT NULL,
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    next_series bigint NOT NULL,
    rules bigint NOT NULL,
    stamp uuid NOT NULL
);
CREATE TABLE tally.graves (
    series bigint NOT NULL,
    lane integer NOT NULL
);
CREATE TABLE tally.history (
    sequence bigint NOT NULL,
    arrived bigint NOT NULL,
    occurred bigint NOT NULL,
    first_sequence bigint NOT NULL,
    first_seen bigint NOT NULL,
    origin bigint NOT NULL,
    lane integer NOT NULL,
    duplicate boolean NOT NULL,
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    id bytea NOT NULL,
    type bytea NOT NULL,
    dimensions bytea NOT NULL,
    payload bytea NOT NULL
)
PARTITION BY RANGE (arrived);
CREATE TABLE tally.history_692 (
    sequence bigint NOT NULL,
    arrived bigint NOT NULL,
    occurred bigint NOT NULL,
    first_sequence bigint NOT NULL,
    first_seen bigint NOT NULL,
    origin bigint NOT NULL,
    lane integer NOT NULL,
    duplicate boolean NOT NULL,
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    id bytea NOT NULL,
    type bytea NOT NULL,
    dimensions bytea NOT NULL,
    payload bytea NOT NULL
);
CREATE TABLE tally.lanes (
    lane integer NOT NULL
);
CREATE TABLE tally.leases (
    lane integer NOT NULL,
    holder uuid NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE tally.meta (
    key text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE tally.objects (
    print uuid NOT NULL,
    lane integer NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL
)
WITH (fillfactor='75');
CREATE TABLE tally.registry (
    print uuid NOT NULL,
    sequence bigint NOT NULL,
    first_seen bigint NOT NULL,
    digest bigint NOT NULL,
    lane integer NOT NULL,
    event boolean NOT NULL,
    tenant_id text COLLATE pg_catalog."C",
    outcome bytea
)
PARTITION BY LIST (lane);
CREATE TABLE tally.registry_0 (
    print uuid NOT NULL,
    sequence bigint NOT NULL,
    first_seen bigint NOT NULL,
    digest bigint NOT NULL,
    lane integer NOT NULL,
    event boolean NOT NULL,
    tenant_id text COLLATE pg_catalog."C",
    outcome bytea
);
CREATE TABLE tally.registry_1 (
    print uuid NOT NULL,
    sequence bigint NOT NULL,
    first_seen bigint NOT NULL,
    digest bigint NOT NULL,
    lane integer NOT NULL,
    event boolean NOT NULL,
    tenant_id text COLLATE pg_catalog."C",
    outcome bytea
);
CREATE TABLE tally.series (
    series bigint NOT NULL,
    cells bigint NOT NULL,
    print uuid NOT NULL,
    lane integer NOT NULL,
    duration integer NOT NULL,
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    key bytea NOT NULL
)
WITH (fillfactor='75');
CREATE TABLE tally.tenants (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lane integer NOT NULL,
    cells bigint NOT NULL
)
WITH (fillfactor='75');
ALTER TABLE ONLY tally.cells ATTACH PARTITION tally.cells_0 FOR VALUES IN (0);
ALTER TABLE ONLY tally.cells ATTACH PARTITION tally.cells_1 FOR VALUES IN (1);
ALTER TABLE ONLY tally.history ATTACH PARTITION tally.history_692 FOR VALUES FROM ('1793664000000') TO ('1796256000000');
ALTER TABLE ONLY tally.registry ATTACH PARTITION tally.registry_0 FOR VALUES IN (0);
ALTER TABLE ONLY tally.registry ATTACH PARTITION tally.registry_1 FOR VALUES IN (1);
INSERT INTO tally.cells_1 VALUES (1, 0, 5, 0, 1795124647466, NULL, NULL, 1, NULL);
INSERT INTO tally.cells_1 VALUES (2, 0, 7, 0, 1795124647497, NULL, NULL, 1, NULL);
INSERT INTO tally.cells_1 VALUES (3, 0, 1, 0, 1795124647515, NULL, NULL, 1, NULL);
INSERT INTO tally.cells_1 VALUES (5, 0, 1, 0, 1795124647544, NULL, NULL, 1, NULL);
INSERT INTO tally.cells_1 VALUES (4, 0, 2, 0, 1795124647544, NULL, NULL, 1, NULL);
INSERT INTO tally.commits VALUES (0, 0, -9223372036854775808, 1, 0, 'baf2ac9d-488b-4b01-a851-de249da44579');
INSERT INTO tally.commits VALUES (1, 0, -9223372036854775808, 1, 0, 'a4000bfe-63b2-4c36-a07c-1bf14d249775');
INSERT INTO tally.commits VALUES (0, 1, 1795124647376, 1, 0, '525edc9e-da19-308c-e179-a4fb376b916b');
INSERT INTO tally.commits VALUES (1, 1, 1795124647380, 1, 0, '9760633f-28f0-9c22-fb3a-63b6b2e75b1a');
INSERT INTO tally.commits VALUES (0, 5, 1795124647381, 1, 5, 'dd720180-9fd5-dc0e-ae3c-45d9cd57df3c');
INSERT INTO tally.commits VALUES (1, 5, 1795124647382, 1, 5, 'c4f61169-16bd-99df-97b4-61370638867e');
INSERT INTO tally.commits VALUES (1, 6, 1795124647434, 2, 5, 'df31c90d-cfe8-727e-1087-29edcdd9bdc7');
INSERT INTO tally.commits VALUES (1, 7, 1795124647466, 2, 5, '7cb3f4c1-e39c-fe68-c0ec-6bc4aa6d0f46');
INSERT INTO tally.commits VALUES (1, 8, 1795124647497, 3, 5, '34382aec-d26d-3260-20fd-592a9f6aeb39');
INSERT INTO tally.commits VALUES (1, 9, 1795124647515, 5, 5, 'fb91d28f-5a65-7cae-16ec-8bb55dc9c7d0');
INSERT INTO tally.commits VALUES (1, 10, 1795124647539, 5, 5, 'b289b09f-6812-c5d8-c7dc-1f4e3d26e3c6');
INSERT INTO tally.commits VALUES (1, 11, 1795124647544, 6, 5, '86788741-fc1e-0df0-420d-76e202bee224');
INSERT INTO tally.commits VALUES (1, 12, 1795124647548, 6, 5, 'ddbe7a14-ee66-0f26-1b04-6344321d1106');
INSERT INTO tally.history_692 VALUES (9, 1795124647515, 1767225600000, 0, 0, 0, 1, false, 'acme', '\x6531', '\x656e7472792e63726561746564', '\x7b2270726f6a656374223a227031227d', '\x7b2261223a22785c753030303079227d');
INSERT INTO tally.history_692 VALUES (10, 1795124647539, 1767225600000, 9, 1795124647515, 0, 1, true, 'acme', '\x6531', '\x656e7472792e63726561746564', '\x7b2270726f6a656374223a227031227d', '\x7b2261223a22785c753030303079227d');
INSERT INTO tally.history_692 VALUES (11, 1795124647544, 1767225600000, 0, 0, 0, 1, false, 'acme', '\x6532', '\x656e7472792e63726561746564', '\x7b2270726f6a656374223a227032227d', '\x7b7d');
INSERT INTO tally.history_692 VALUES (12, 1795124647548, 1767225600000, 0, 0, 0, 1, false, 'umbrella', '\x6531', '\x50726f766973696f6e6564', '\x7b7d', '\x7b7d');
INSERT INTO tally.lanes VALUES (0);
INSERT INTO tally.lanes VALUES (1);
INSERT INTO tally.leases VALUES (0, 'f332abd1-a118-72e6-ff17-43c22fb1a250', '-infinity');
INSERT INTO tally.leases VALUES (1, 'f332abd1-a118-72e6-ff17-43c22fb1a250', '-infinity');
INSERT INTO tally.meta VALUES ('schema', '\x0000000000000001');
INSERT INTO tally.meta VALUES ('lanes', '\x0000000000000002');
INSERT INTO tally.meta VALUES ('ids_shared', '\x0000000000000000');
INSERT INTO tally.meta VALUES ('installation', '\xc1ea9610012da10d');
INSERT INTO tally.meta VALUES ('secret', '\xd6124265707df60c629946b4166cd5067c431ec0377d4ab048cc33689dde566040386ee07d533c75f62d1591444ace415a350b179278d7f9e14d355828fc10e3334fdf8d784163fe6ea689b8c8c1962e414d0e0f3312a26b00d68e61d12fb5f6aac6526b6e443c4bba10a7036de0a1867bbd841adce7c005d17603c222b8556892653542021b49f66c507e6b4c15d7bec216e2005fa1c0d32d39c5c5fc3e7001927a6f0b1892ac03aa8e0805101b9cf5b419f9ccc78cb1b84c80fbbe17658bb2');
INSERT INTO tally.objects VALUES ('9e3b2536-d532-c47e-1cdf-c2d3f1db8e16', 0, '\x6d636c6f636b', '\x0000000000000000ffffffffffffff7fcd55c4f5a101000000000000000000000000000000000000d055c4f5a1010000');
INSERT INTO tally.objects VALUES ('9e3b2536-d532-c47e-1cdf-c2d3f1db8e16', 1, '\x6d636c6f636b', '\x0000000000000000ffffffffffffff7fce55c4f5a101000000000000000000000000000000000000d455c4f5a1010000');
INSERT INTO tally.objects VALUES ('252c86f1-3144-1b6d-cd24-74b1644c34e9', 0, '\x63656e7472795f636f756e74', '\x01010b656e7472795f636f756e74000575736167651400000001d5ab91ae9f340002010770726f6a6563740000');
INSERT INTO tally.objects VALUES ('c1d14d65-4e5a-8d21-b31f-c415ae49bebd', 0, '\x6d67656e65726174696f6e', '\x0100000000000000');
INSERT INTO tally.objects VALUES ('812a0047-7170-8963-4844-de5538845a41', 0, '\x6d72756c65643a59ee6d283429f82f', '\xd555c4f5a1010000');
INSERT INTO tally.objects VALUES ('a177217f-baec-8b00-51c1-4a6a2826e142', 0, '\x6d72756c6573', '\x636f756e746572733a0a20202d20636f756e7465724e616d653a2022656e7472795f636f756e74220a202020206d6f64653a2070657273697374656e740a2020202064696d656e73696f6e733a205b2270726f6a656374225d0a20202020726f6c6c7570733a205b5b5d5d0a20202020666c6f6f7241745a65726f3a20747275650a2020202072756c65733a0a2020202020202d207b206f6e3a2022656e7472792e63726561746564222c206f703a20696e6372656d656e74207d0a2020202020202d207b206f6e3a2022656e7472792e64656c65746564222c206f703a2064656372656d656e74207d0a2020202067726f75703a20227573616765220a202020206c696d69743a2031300a73746174757365733a0a20202250726f766973696f6e6564223a2022616374697665220a2020224465636f6d6d697373696f6e6564223a20226465636f6d6d697373696f6e6564220a');
INSERT INTO tally.objects VALUES ('252c86f1-3144-1b6d-cd24-74b1644c34e9', 1, '\x63656e7472795f636f756e74', '\x01010b656e7472795f636f756e74000575736167651400000001d6ab91ae9f340002010770726f6a6563740000');
INSERT INTO tally.objects VALUES ('c1d14d65-4e5a-8d21-b31f-c415ae49bebd', 1, '\x6d67656e65726174696f6e', '\x0100000000000000');
INSERT INTO tally.objects VALUES ('812a0047-7170-8963-4844-de5538845a41', 1, '\x6d72756c65643a59ee6d283429f82f', '\xd655c4f5a1010000');
INSERT INTO tally.objects VALUES ('a177217f-baec-8b00-51c1-4a6a2826e142', 1, '\x6d72756c6573', '\x636f756e746572733a0a20202d20636f756e7465724e616d653a2022656e7472795f636f756e74220a202020206d6f64653a2070657273697374656e740a2020202064696d656e73696f6e733a205b2270726f6a656374225d0a20202020726f6c6c7570733a205b5b5d5d0a20202020666c6f6f7241745a65726f3a20747275650a2020202072756c65733a0a2020202020202d207b206f6e3a2022656e7472792e63726561746564222c206f703a20696e6372656d656e74207d0a2020202020202d207b206f6e3a2022656e7472792e64656c65746564222c206f703a2064656372656d656e74207d0a2020202067726f75703a20227573616765220a202020206c696d69743a2031300a73746174757365733a0a20202250726f766973696f6e6564223a2022616374697665220a2020224465636f6d6d697373696f6e6564223a20226465636f6d6d697373696f6e6564220a');
INSERT INTO tally.objects VALUES ('464441db-9041-f7f6-1b95-de8913323fff', 1, '\x7561636d65', '\x5b56c4f5a1010000616374697665');
INSERT INTO tally.objects VALUES ('fb111adc-aedc-7cbb-2241-0fb0b2ba0c25', 1, '\x75756d6272656c6c61', '\x7c56c4f5a1010000616374697665');
INSERT INTO tally.registry_1 VALUES ('fab88ba4-9226-0ceb-4a6b-0025b2a79678', 9, 1795124647515, 4092374278, 1, true, 'acme', '\x');
INSERT INTO tally.registry_1 VALUES ('e047233e-288d-bf17-62dd-bb18e8d5b266', 11, 1795124647544, 639815825, 1, true, 'acme', '\x');
INSERT INTO tally.registry_1 VALUES ('ef2863c1-72b4-d4f9-6f2b-02f0712cd89d', 12, 1795124647548, 778577281, 1, true, 'umbrella', '\x');
INSERT INTO tally.series VALUES (1, 1, '7cfd2cff-9c63-df91-40dc-1ffe67f2606f', 1, 0, 'acme', '\x61636d650064766965777300');
INSERT INTO tally.series VALUES (2, 1, 'a1e06cb8-177c-0380-82e2-07c4493eeb8d', 1, 0, 'umbrella', '\x756d6272656c6c610064766965777300');
INSERT INTO tally.series VALUES (3, 1, 'f62ac008-b285-37b1-c005-06f588f24353', 1, 0, 'acme', '\x61636d650072656e7472795f636f756e7400000000017b2270726f6a656374223a227031227d');
INSERT INTO tally.series VALUES (4, 1, '6e53e4f7-ec92-425e-3015-4b99edc732c5', 1, 0, 'acme', '\x61636d650072656e7472795f636f756e7400000000017b7d');
INSERT INTO tally.series VALUES (5, 1, '03171f77-91c9-683e-05f1-ce82b2466abd', 1, 0, 'acme', '\x61636d650072656e7472795f636f756e7400000000017b2270726f6a656374223a227032227d');
INSERT INTO tally.tenants VALUES ('umbrella', 1, 1);
INSERT INTO tally.tenants VALUES ('acme', 1, 4);
ALTER TABLE ONLY tally.cells
    ADD CONSTRAINT cells_pkey PRIMARY KEY (series, bucket, lane);
ALTER TABLE ONLY tally.cells_0
    ADD CONSTRAINT cells_0_pkey PRIMARY KEY (series, bucket, lane);
ALTER TABLE ONLY tally.cells_1
    ADD CONSTRAINT cells_1_pkey PRIMARY KEY (series, bucket, lane);
ALTER TABLE ONLY tally.commits
    ADD CONSTRAINT commits_pkey PRIMARY KEY (lane, sequence);
ALTER TABLE ONLY tally.graves
    ADD CONSTRAINT graves_pkey PRIMARY KEY (series, lane);
ALTER TABLE ONLY tally.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (lane, sequence, arrived);
ALTER TABLE ONLY tally.history_692
    ADD CONSTRAINT history_692_pkey PRIMARY KEY (lane, sequence, arrived);
ALTER TABLE ONLY tally.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (lane);
ALTER TABLE ONLY tally.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (lane);
ALTER TABLE ONLY tally.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY tally.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (print, lane);
ALTER TABLE ONLY tally.registry
    ADD CONSTRAINT registry_pkey PRIMARY KEY (print, lane);
ALTER TABLE ONLY tally.registry_0
    ADD CONSTRAINT registry_0_pkey PRIMARY KEY (print, lane);
ALTER TABLE ONLY tally.registry_1
    ADD CONSTRAINT registry_1_pkey PRIMARY KEY (print, lane);
ALTER TABLE ONLY tally.series
    ADD CONSTRAINT series_pkey PRIMARY KEY (series, lane);
ALTER TABLE ONLY tally.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (tenant_id, lane);
CREATE INDEX cells_due ON ONLY tally.cells USING btree (due, lane) WHERE (due IS NOT NULL);
CREATE INDEX cells_0_due_lane_idx ON tally.cells_0 USING btree (due, lane) WHERE (due IS NOT NULL);
CREATE INDEX cells_1_due_lane_idx ON tally.cells_1 USING btree (due, lane) WHERE (due IS NOT NULL);
CREATE INDEX history_tenant ON ONLY tally.history USING btree (tenant_id, sequence);
CREATE INDEX history_692_tenant_id_sequence_idx ON tally.history_692 USING btree (tenant_id, sequence);
CREATE INDEX objects_key ON tally.objects USING btree ("substring"(key, 1, 512), lane);
CREATE INDEX registry_keys ON ONLY tally.registry USING btree (first_seen, lane) WHERE (NOT event);
CREATE INDEX registry_0_first_seen_lane_idx ON tally.registry_0 USING btree (first_seen, lane) WHERE (NOT event);
CREATE INDEX registry_1_first_seen_lane_idx ON tally.registry_1 USING btree (first_seen, lane) WHERE (NOT event);
CREATE INDEX series_key ON tally.series USING btree ("substring"(key, 1, 512), lane);
CREATE UNIQUE INDEX series_print ON tally.series USING btree (print, duration, lane);
ALTER INDEX tally.cells_due ATTACH PARTITION tally.cells_0_due_lane_idx;
ALTER INDEX tally.cells_pkey ATTACH PARTITION tally.cells_0_pkey;
ALTER INDEX tally.cells_due ATTACH PARTITION tally.cells_1_due_lane_idx;
ALTER INDEX tally.cells_pkey ATTACH PARTITION tally.cells_1_pkey;
ALTER INDEX tally.history_pkey ATTACH PARTITION tally.history_692_pkey;
ALTER INDEX tally.history_tenant ATTACH PARTITION tally.history_692_tenant_id_sequence_idx;
ALTER INDEX tally.registry_keys ATTACH PARTITION tally.registry_0_first_seen_lane_idx;
ALTER INDEX tally.registry_pkey ATTACH PARTITION tally.registry_0_pkey;
ALTER INDEX tally.registry_keys ATTACH PARTITION tally.registry_1_first_seen_lane_idx;
ALTER INDEX tally.registry_pkey ATTACH PARTITION tally.registry_1_pkey;
