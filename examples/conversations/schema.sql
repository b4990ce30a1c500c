-- The application's own tables. Nothing here knows of tally: counts live there, records live here.

CREATE TABLE person (
    id         serial PRIMARY KEY,
    name       text NOT NULL,
    deleted_at timestamptz
);

CREATE TABLE conversation (
    slug  text PRIMARY KEY,
    title text NOT NULL
);

-- Soft-deleted: no current content. Moderated: hidden by a moderator.
CREATE TABLE opinion (
    id                 serial PRIMARY KEY,
    conversation_slug  text NOT NULL REFERENCES conversation,
    author_id          int NOT NULL REFERENCES person,
    current_content_id int,
    moderated_at       timestamptz
);

CREATE TABLE vote (
    id           serial PRIMARY KEY,
    opinion_id   int NOT NULL REFERENCES opinion,
    author_id    int NOT NULL REFERENCES person,
    agrees       boolean NOT NULL,
    cancelled_at timestamptz,
    UNIQUE (opinion_id, author_id)
);

CREATE INDEX ON opinion (conversation_slug);

-- What counts, said once: tally's queries read these views, and so could anybody's drift check (A-15, A-16).
-- An opinion counts unless it was deleted, moderated, or its author has gone; a vote counts unless it was
-- cancelled or its author has gone, and only on an opinion that counts.
CREATE VIEW counted_opinion AS
    SELECT o.* FROM opinion o JOIN person p ON p.id = o.author_id
    WHERE o.current_content_id IS NOT NULL AND o.moderated_at IS NULL AND p.deleted_at IS NULL;

CREATE VIEW counted_vote AS
    SELECT v.*, o.conversation_slug FROM vote v
    JOIN counted_opinion o ON o.id = v.opinion_id
    JOIN person p ON p.id = v.author_id
    WHERE v.cancelled_at IS NULL AND p.deleted_at IS NULL;
