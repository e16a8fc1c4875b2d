BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'trunkline','m001_spine','2100-01-01 00:00:00');
INSERT INTO "_sqlite_migrations" VALUES(2,'trunkline','m002_search','2100-01-01 00:00:00');
INSERT INTO "_sqlite_migrations" VALUES(3,'trunkline','m003_platforms','2100-01-01 00:00:00');
INSERT INTO "_sqlite_migrations" VALUES(4,'trunkline','m004_models','2100-01-01 00:00:00');
INSERT INTO "_sqlite_migrations" VALUES(5,'trunkline','m005_compaction','2100-01-01 00:00:00');
INSERT INTO "_sqlite_migrations" VALUES(6,'trunkline','m006_questions','2100-01-01 00:00:00');
INSERT INTO "_sqlite_migrations" VALUES(7,'trunkline','m007_repos','2100-01-01 00:00:00');
INSERT INTO "_sqlite_migrations" VALUES(8,'trunkline','m008_agent_processes','2100-01-01 00:00:00');
CREATE TABLE account_facts (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        name    TEXT NOT NULL,
        value   TEXT NOT NULL,
        PRIMARY KEY (channel, account, name)
    ) WITHOUT ROWID
    ;
INSERT INTO "account_facts" VALUES('telegram','bot','menu','v1');
CREATE TABLE agent_processes (
        mark       TEXT    PRIMARY KEY,
        session_id TEXT    NOT NULL,
        agent_id   TEXT    NOT NULL,
        pid        INTEGER,
        started    INTEGER,
        made_at    INTEGER NOT NULL
    ) WITHOUT ROWID
    ;
INSERT INTO "agent_processes" VALUES('f00d','00000000-0000-7000-8000-000000000001','model',4711,815,4102444800051000);
CREATE TABLE agent_sessions (
        session  INTEGER PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
        agent_id TEXT    NOT NULL,
        name     TEXT    NOT NULL,
        cwd      TEXT    NOT NULL,
        made_at  INTEGER NOT NULL,
        -- The session lives and ends with its process. Conversations outlive theirs.
        process  INTEGER NOT NULL DEFAULT 0
    );
INSERT INTO "agent_sessions" VALUES(2,'model','agent''s own','/srv/repositories/website',4102444800050000,0);
CREATE TABLE aliases (
        channel  TEXT    NOT NULL,
        account  TEXT    NOT NULL,
        old_chat TEXT    NOT NULL,
        new_chat TEXT    NOT NULL,
        made_at  INTEGER NOT NULL,
        PRIMARY KEY (channel, account, old_chat)
    ) WITHOUT ROWID
    ;
INSERT INTO "aliases" VALUES('telegram','bot','-5','-100',4102444800011000);
CREATE TABLE allowances (
        id     INTEGER PRIMARY KEY AUTOINCREMENT,
        budget TEXT    NOT NULL,
        scope  TEXT    NOT NULL,
        tokens INTEGER NOT NULL DEFAULT 0 CHECK (tokens >= 0),
        cost   INTEGER NOT NULL DEFAULT 0 CHECK (cost >= 0),
        at     INTEGER NOT NULL
    );
INSERT INTO "allowances" VALUES(1,'everybody','person=x',500,70,4102444800024000);
CREATE TABLE budget_warnings (
        budget TEXT    NOT NULL,
        scope  TEXT    NOT NULL,
        period INTEGER NOT NULL,
        PRIMARY KEY (budget, scope)
    ) WITHOUT ROWID
    ;
INSERT INTO "budget_warnings" VALUES('everybody','person=x',4102444800000000);
CREATE TABLE chosen_agents (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        chat    TEXT NOT NULL,
        thread  TEXT NOT NULL,
        agent   TEXT NOT NULL,
        PRIMARY KEY (channel, account, chat, thread)
    ) WITHOUT ROWID
    ;
INSERT INTO "chosen_agents" VALUES('telegram','bot','-100','7','main');
CREATE TABLE compactions (
        id             INTEGER PRIMARY KEY,
        session        INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        strategy       TEXT    NOT NULL,
        through_seq    INTEGER NOT NULL,
        summary        TEXT    NOT NULL,
        tokens_before  INTEGER NOT NULL,
        tokens_after   INTEGER NOT NULL CHECK (tokens_after < tokens_before),
        created_at     INTEGER NOT NULL,
        undone_at      INTEGER
    );
INSERT INTO "compactions" VALUES(1,1,'summary',2,'They met.',120,30,4102444800006000,NULL);
INSERT INTO "compactions" VALUES(2,2,'summary',2,'By summary.',100,50,4102444800026000,NULL);
INSERT INTO "compactions" VALUES(3,2,'trim_tools',2,'',99,50,4102444800027000,NULL);
INSERT INTO "compactions" VALUES(4,2,'window',2,'By window.',98,50,4102444800028000,NULL);
CREATE TABLE holds (place TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "holds" VALUES('telegrambot-100',4102444860000000);
CREATE TABLE identities (
        channel TEXT    NOT NULL,
        user_id TEXT    NOT NULL,
        person  INTEGER NOT NULL REFERENCES people (id),
        PRIMARY KEY (channel, user_id)
    ) WITHOUT ROWID
    ;
INSERT INTO "identities" VALUES('telegram','1001',1);
INSERT INTO "identities" VALUES('web','owner',1);
CREATE TABLE inbox (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        channel     TEXT    NOT NULL,
        external_id TEXT    NOT NULL,
        key         TEXT    NOT NULL,
        session     INTEGER REFERENCES sessions (id) ON DELETE CASCADE,
        address     TEXT    NOT NULL CHECK (json_valid(address)),
        person      INTEGER REFERENCES people (id),
        sender_name TEXT    NOT NULL DEFAULT '',
        message_id  TEXT    NOT NULL,
        text        TEXT    NOT NULL,
        state       TEXT    NOT NULL DEFAULT 'waiting'
                    CHECK (state IN ('waiting', 'running', 'done', 'cancelled')),
        turn        INTEGER REFERENCES turns (id) ON DELETE SET NULL,
        received_at INTEGER NOT NULL, about TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(about)), thought INTEGER, open_until INTEGER NOT NULL DEFAULT 0,
        UNIQUE (channel, external_id)
    );
INSERT INTO "inbox" VALUES(1,'telegram','bot:1','main:telegram:bot:group:-100',NULL,'{"channel":"telegram","account":"bot","chat":"-100","thread":"7","reply_to":"41"}',1,'','00000000-0000-7000-8000-000000000002','','done',4294967297,4102444800001000,'{}',NULL,0);
INSERT INTO "inbox" VALUES(2,'telegram','bot:2','main:telegram:bot:group:-100',NULL,'{"channel":"telegram","account":"bot","chat":"-100","thread":"7","reply_to":"41"}',1,'','00000000-0000-7000-8000-000000000003','','done',4294967298,4102444800007000,'{}',NULL,0);
INSERT INTO "inbox" VALUES(3,'telegram','bot:3','main:telegram:bot:group:-100',NULL,'{"channel":"telegram","account":"bot","chat":"-100","thread":"7","reply_to":"41"}',1,'Ada','00000000-0000-7000-8000-000000000004','Hello?','waiting',NULL,4102444800010000,'{}',NULL,0);
INSERT INTO "inbox" VALUES(4,'telegram','bot:5','main:telegram:bot:group:-100/8',NULL,'{"channel":"telegram","account":"bot","chat":"-100","thread":"8","reply_to":"41"}',1,'','00000000-0000-7000-8000-000000000005','What is','waiting',NULL,4102444800013000,'{"user":"1001","attachments":[{"kind":"image","ref":"file-1","name":"../cat.png","mime":"image/png","size":77}],"quote":{"text":"Look","sender":{"id":"7","name":"Eve"}}}',NULL,4102444800014000);
INSERT INTO "inbox" VALUES(5,'telegram','bot:6','main:telegram:bot:group:-100/8',NULL,'{"channel":"telegram","account":"bot","chat":"-100","thread":"8","reply_to":"41"}',1,'','00000000-0000-7000-8000-000000000006','on it?','waiting',NULL,4102444800013000,'{"user":"1001","attachments":[{"kind":"image","ref":"file-1","name":"../cat.png","mime":"image/png","size":77}],"quote":{"text":"Look","sender":{"id":"7","name":"Eve"}}}',4,4102444800014000);
CREATE TABLE messages (
        id           INTEGER PRIMARY KEY,
        session      INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL
                     REFERENCES sessions (id) ON DELETE CASCADE,
        public_id    TEXT    NOT NULL UNIQUE,
        turn         INTEGER,
        role         TEXT    NOT NULL CHECK (role IN ('user', 'agent', 'system')),
        content      TEXT    NOT NULL CHECK (json_valid(content)),
        tool_calls   TEXT    CHECK (tool_calls IS NULL OR json_valid(tool_calls)),
        tool_call_id TEXT,
        token_count  INTEGER CHECK (token_count >= 0),
        metadata     TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
        timestamp    INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)),
        changed_at   INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
    );
INSERT INTO "messages" VALUES(4294967297,'00000000-0000-7000-8000-000000000002',4294967297,'user','{"type":"text","text":"What is it? 😀"}',NULL,NULL,NULL,'{"sender":"Ada"}',4102444800001001,4102444800001001);
INSERT INTO "messages" VALUES(4294967298,'00000000-0000-7000-8000-000000000007',4294967297,'system','{"type":"plan","steps":[{"content":"look","status":"completed"}]}',NULL,NULL,NULL,'{}',4102444800002000,4102444800002000);
INSERT INTO "messages" VALUES(4294967299,'00000000-0000-7000-8000-000000000008',4294967297,'system','{"type":"tool","tool":"grep","args":{"for":"it"},"result":{"found":1}}',NULL,NULL,NULL,'{}',4102444800003000,4102444800003000);
INSERT INTO "messages" VALUES(4294967300,'00000000-0000-7000-8000-000000000009',4294967297,'agent','{"type":"text","text":"It''s a\n''golden'' database.","partial":false}','[{"id":"call-1","name":"grep"}]','call-1',9,'{}',4102444800004000,4102444800004000);
INSERT INTO "messages" VALUES(4294967301,'00000000-0000-7000-8000-000000000003',4294967298,'user','{"type":"text","text":"And now?"}',NULL,NULL,NULL,'{"sender":"Ada"}',4102444800007000,4102444800007000);
INSERT INTO "messages" VALUES(4294967302,'00000000-0000-7000-8000-000000000010',4294967298,'system','{"type":"text","text":"The agent stopped."}',NULL,NULL,NULL,'{}',4102444800008000,4102444800008000);
INSERT INTO "messages" VALUES(8589934593,'00000000-0000-7000-8000-000000000011',8589934593,'user','{"type":"text","text":"How much?"}',NULL,NULL,NULL,'{"pinned":true}',4102444800021000,4102444800025000);
INSERT INTO "messages" VALUES(8589934594,'00000000-0000-7000-8000-000000000012',8589934593,'agent','{"type":"text","text":"That much.","partial":false}',NULL,NULL,40,'{}',4102444800022000,4102444800022000);
INSERT INTO "messages" VALUES(8589934595,'00000000-0000-7000-8000-000000000013',8589934594,'user','{"type":"text","text":"And more?"}',NULL,NULL,NULL,'{}',4102444800023000,4102444800023000);
CREATE TABLE outbox (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        place      TEXT    NOT NULL,
        address    TEXT    NOT NULL CHECK (json_valid(address)),
        turn       INTEGER REFERENCES turns (id) ON DELETE CASCADE,
        kind       TEXT    NOT NULL CHECK (kind IN ('preview', 'final', 'notice')),
        text       TEXT    NOT NULL,
        state      TEXT    NOT NULL CHECK (state IN ('held', 'ready', 'sending', 'sent', 'parked', 'dropped')),
        sent_id    TEXT,
        uncertain  INTEGER NOT NULL DEFAULT 0,
        attempts   INTEGER NOT NULL DEFAULT 0,
        next_at    INTEGER NOT NULL DEFAULT 0,
        error      TEXT,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL
    , filename TEXT, blocked INTEGER NOT NULL DEFAULT 0, part INTEGER NOT NULL DEFAULT 0, question INTEGER);
INSERT INTO "outbox" VALUES(1,'telegrambot-100','{"channel":"telegram","account":"bot","chat":"-100","thread":"7","reply_to":"41"}',4294967297,'final','It''s a
''golden'' database.','sent','42',0,1,0,NULL,4102444800004000,4102444800005000,NULL,0,1,NULL);
INSERT INTO "outbox" VALUES(2,'telegrambot-100','{"channel":"telegram","account":"bot","chat":"-100","thread":"7","reply_to":"41"}',4294967298,'final','The agent stopped.','parked',NULL,0,0,0,'chat not found',4102444800008000,4102444800009000,NULL,0,0,NULL);
INSERT INTO "outbox" VALUES(3,'telegrambot-100','{"channel":"telegram","account":"bot","chat":"-100","thread":"7","reply_to":"41"}',NULL,'final','A moment.','ready',NULL,0,0,0,NULL,4102444800010000,4102444800010000,NULL,0,0,NULL);
INSERT INTO "outbox" VALUES(4,'telegrambot-100','{"channel":"telegram","account":"bot","chat":"-100","thread":"8","reply_to":"41"}',NULL,'notice','# All of it','parked',NULL,0,0,0,'blocked',4102444800013000,4102444800014000,'conversation.md',1,0,NULL);
INSERT INTO "outbox" VALUES(5,'telegrambot-100','{"channel":"telegram","account":"bot","chat":"-100","thread":"9","reply_to":"41"}',NULL,'notice','May I?','sent',NULL,0,0,0,NULL,4102444800020000,4102444800020000,NULL,0,0,1);
CREATE TABLE outlays (
        id               INTEGER PRIMARY KEY,
        session          INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        created_at       INTEGER NOT NULL,
        created_by       INTEGER REFERENCES people (id) ON DELETE SET NULL,
        agent            TEXT,
        chat             TEXT,
        model            TEXT,
        input_tokens     INTEGER CHECK (input_tokens >= 0),
        cached_tokens    INTEGER CHECK (cached_tokens >= 0),
        output_tokens    INTEGER CHECK (output_tokens >= 0),
        reasoning_tokens INTEGER CHECK (reasoning_tokens >= 0),
        usage_source     TEXT    NOT NULL,
        cost             INTEGER CHECK (cost >= 0)
    );
INSERT INTO "outlays" VALUES(1,2,4102444800029000,1,'model','discord:-200','small-1',50,20,5,4,'provider',12);
CREATE TABLE overheard (
        id     INTEGER PRIMARY KEY AUTOINCREMENT,
        key    TEXT    NOT NULL,
        sender TEXT    NOT NULL,
        name   TEXT    NOT NULL,
        text   TEXT    NOT NULL,
        at     INTEGER NOT NULL
    );
INSERT INTO "overheard" VALUES(1,'main:telegram:bot:group:-100','telegram:7','Eve','not for you',4102444800013000);
CREATE TABLE pairings (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        code       TEXT    NOT NULL UNIQUE,
        channel    TEXT    NOT NULL,
        account    TEXT    NOT NULL,
        sender     TEXT    NOT NULL,
        name       TEXT    NOT NULL,
        message    TEXT    NOT NULL CHECK (json_valid(message)),
        created_at INTEGER NOT NULL,
        UNIQUE (channel, account, sender)
    );
INSERT INTO "pairings" VALUES(1,'ABCD2345','telegram','bot','666','','{"external_id":"bot:4","address":{"channel":"telegram","account":"bot","chat":"-100","thread":"7","reply_to":"41"},"peer_kind":"dm","sender":{"id":"666","name":"","is_bot":false},"text":"spam","guild":null,"roles":[],"addressed":"mention","attachments":[],"quote":null,"forwarded_from":null,"open":false,"seen":null,"former_chats":[]}',4102444800013000);
CREATE TABLE participants (
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        person  INTEGER NOT NULL,
        channel TEXT    NOT NULL,
        account TEXT    NOT NULL,
        PRIMARY KEY (session, person, channel, account)
    ) WITHOUT ROWID
    ;
INSERT INTO "participants" VALUES(1,1,'telegram','bot');
CREATE TABLE people (
        id          INTEGER PRIMARY KEY,
        public_id   TEXT    NOT NULL UNIQUE,
        name        TEXT    NOT NULL DEFAULT '',
        config_name TEXT    UNIQUE,
        owner       INTEGER NOT NULL DEFAULT 0 CHECK (owner IN (0, 1)),
        known       INTEGER NOT NULL DEFAULT 0 CHECK (known IN (0, 1)),
        merged_into INTEGER REFERENCES people (id),
        created_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
    , configured_once INTEGER NOT NULL DEFAULT 0);
INSERT INTO "people" VALUES(1,'00000000-0000-7000-8000-000000000014','ada','ada',1,1,NULL,4102444800000000,1);
CREATE TABLE questions (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        token      TEXT    NOT NULL UNIQUE,
        turn       INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        asker      INTEGER REFERENCES people (id),
        message    INTEGER,
        answerers  TEXT    NOT NULL,
        text       TEXT    NOT NULL,
        options    TEXT    NOT NULL,
        state      TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'chosen', 'timed_out', 'closed')),
        chosen     TEXT,
        decided_by INTEGER REFERENCES people (id),
        outcome    TEXT,
        expires_at INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL
    );
INSERT INTO "questions" VALUES(1,'golden-1',4294967297,1,NULL,'["bea","telegram:7"]','May I?','[{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"no","label":"No","kind":"reject_once"}]','chosen','yes',1,'Yes, by ada.',4102445400000000,4102444800020000,4102444800021000);
INSERT INTO "questions" VALUES(2,'golden-2',4294967297,1,NULL,'["bea","telegram:7"]','May I?','[{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"no","label":"No","kind":"reject_once"}]','open',NULL,NULL,NULL,4102445400000000,4102444800022000,4102444800022000);
CREATE TABLE refusals (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        channel    TEXT    NOT NULL,
        account    TEXT    NOT NULL,
        chat       TEXT    NOT NULL,
        thread     TEXT,
        sender     TEXT    NOT NULL,
        message_id TEXT,
        reason     TEXT    NOT NULL,
        at         INTEGER NOT NULL
    );
INSERT INTO "refusals" VALUES(1,'telegram','bot','-100','7','666','41','unknown_sender',4102444800012000);
CREATE TABLE repos (
        id         INTEGER PRIMARY KEY,
        public_id  TEXT    NOT NULL UNIQUE,
        name       TEXT    NOT NULL,
        path       TEXT    NOT NULL UNIQUE,
        state      TEXT    NOT NULL DEFAULT 'listed' CHECK (state IN ('listed', 'gone', 'removed')),
        created_at INTEGER NOT NULL,
        scanned_at INTEGER NOT NULL
    );
INSERT INTO "repos" VALUES(1,'00000000-0000-7000-8000-000000000015','group/project','/srv/repositories/group/project','listed',4102444800030000,4102444800031000);
INSERT INTO "repos" VALUES(2,'00000000-0000-7000-8000-000000000016','old','/srv/repositories/old','gone',4102444800030000,4102444800030000);
INSERT INTO "repos" VALUES(3,'00000000-0000-7000-8000-000000000017','private','/srv/repositories/private','removed',4102444800030000,4102444800030000);
CREATE TABLE search_state (
        id      INTEGER PRIMARY KEY CHECK (id = 1),
        enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
        through INTEGER NOT NULL
    );
INSERT INTO "search_state" VALUES(1,1,9223372036854775807);
CREATE TABLE seen (
        channel TEXT    NOT NULL,
        account TEXT    NOT NULL,
        room    TEXT    NOT NULL,
        last    INTEGER NOT NULL,
        PRIMARY KEY (channel, account, room)
    ) WITHOUT ROWID
    ;
INSERT INTO "seen" VALUES('telegram','bot','-100',41);
CREATE TABLE sessions (
        id                  INTEGER PRIMARY KEY AUTOINCREMENT,
        public_id           TEXT    NOT NULL UNIQUE,
        key                 TEXT    NOT NULL,
        agent_id            TEXT    NOT NULL,
        channel             TEXT    NOT NULL,
        account_id          TEXT    NOT NULL,
        peer_kind           TEXT    NOT NULL CHECK (peer_kind IN ('dm', 'group', 'channel')),
        peer_id             TEXT    NOT NULL,
        status              TEXT    NOT NULL DEFAULT 'active' CHECK (status IN
                            ('active', 'idle', 'compacted', 'completed', 'cancelled', 'error', 'archived')),
        person              INTEGER REFERENCES people (id),
        predecessor         INTEGER REFERENCES sessions (id) ON DELETE SET NULL,
        title               TEXT,
        last_model          TEXT,
        last_seq            INTEGER NOT NULL DEFAULT 0,
        message_count       INTEGER NOT NULL DEFAULT 0,
        turn_count          INTEGER NOT NULL DEFAULT 0,
        total_input_tokens  INTEGER NOT NULL DEFAULT 0,
        total_output_tokens INTEGER NOT NULL DEFAULT 0,
        compaction_count    INTEGER NOT NULL DEFAULT 0,
        last_compaction_at  INTEGER,
        reason              TEXT,
        metadata            TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
        created_at          INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)),
        updated_at          INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))
    , repo INTEGER REFERENCES repos (id));
INSERT INTO "sessions" VALUES(1,'00000000-0000-7000-8000-000000000018','main:telegram:bot:group:-100','main','telegram','bot','group','-100','active',1,NULL,NULL,'small-1',6,6,2,120,9,1,4102444800006000,NULL,'{}',4102444800001000,4102444800008000,NULL);
INSERT INTO "sessions" VALUES(2,'00000000-0000-7000-8000-000000000001','model:discord:other:group:-200','model','discord','other','group','-200','active',NULL,NULL,NULL,'large-1',3,3,2,1000,200,3,4102444800028000,NULL,'{}',4102444800020000,4102444800028001,NULL);
INSERT INTO "sessions" VALUES(3,'00000000-0000-7000-8000-000000000019','coder:api:owner:dm:bound','coder','api','owner','dm','bound','active',NULL,NULL,NULL,NULL,0,0,0,0,0,0,NULL,NULL,'{}',4102444800032000,4102444800032001,1);
CREATE TABLE thoughtful (
        place TEXT PRIMARY KEY
    ) WITHOUT ROWID
    ;
INSERT INTO "thoughtful" VALUES('telegrambot-100');
CREATE TABLE turns (
        id                   INTEGER PRIMARY KEY,
        session              INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL
                             REFERENCES sessions (id) ON DELETE CASCADE,
        public_id            TEXT    NOT NULL UNIQUE,
        status               TEXT    NOT NULL DEFAULT 'pending'
                             CHECK (status IN ('pending', 'completed', 'failed')),
        mode                 TEXT    NOT NULL DEFAULT 'ask',
        conversation_id      TEXT    NOT NULL,
        created_by           INTEGER REFERENCES people (id),
        attempts             INTEGER NOT NULL DEFAULT 1,
        first_message        INTEGER NOT NULL,
        last_message         INTEGER NOT NULL,
        instruction_summary  TEXT    NOT NULL,
        answer_summary       TEXT,
        model                TEXT,
        input_tokens         INTEGER CHECK (input_tokens >= 0),
        output_tokens        INTEGER CHECK (output_tokens >= 0),
        usage_source         TEXT    CHECK (usage_source IN ('provider', 'estimated')),
        warnings             TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(warnings)),
        errors               TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(errors)),
        created_at           INTEGER NOT NULL,
        response_received_at INTEGER,
        status_at            INTEGER NOT NULL
    , agent TEXT, chat TEXT, cached_tokens INTEGER CHECK (cached_tokens >= 0), reasoning_tokens INTEGER CHECK (reasoning_tokens >= 0), cost INTEGER CHECK (cost >= 0), response_id TEXT, previous_response_id TEXT, chain_expires_at INTEGER, reserved_tokens INTEGER CHECK (reserved_tokens >= 0), reserved_cost INTEGER CHECK (reserved_cost >= 0));
INSERT INTO "turns" VALUES(4294967297,'00000000-0000-7000-8000-000000000020','completed','ask','00000000-0000-7000-8000-000000000018',1,1,1,4,'What is it? 😀','A database','small-1',120,9,'provider','["slow"]','[]',4102444800001001,4102444800004000,4102444800004000,'main',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "turns" VALUES(4294967298,'00000000-0000-7000-8000-000000000021','failed','ask','00000000-0000-7000-8000-000000000018',1,1,5,6,'And now?',NULL,NULL,NULL,NULL,NULL,'[]','["agent_failed"]',4102444800007000,4102444800008000,4102444800008000,'main',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "turns" VALUES(8589934593,'00000000-0000-7000-8000-000000000022','completed','ask','00000000-0000-7000-8000-000000000001',1,1,1,2,'How much?','That much','large-1',700,40,'provider','[]','[]',4102444800021000,4102444800022000,4102444800022000,'model','discord:-200',300,160,1234,'resp_2','resp_1',4102531200000000,2000,900);
INSERT INTO "turns" VALUES(8589934594,'00000000-0000-7000-8000-000000000023','pending','ask','00000000-0000-7000-8000-000000000001',1,1,3,3,'And more?',NULL,NULL,NULL,NULL,NULL,'[]','[]',4102444800023000,NULL,4102444800023000,'model','discord:-200',NULL,NULL,NULL,NULL,NULL,NULL,3000,NULL);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE UNIQUE INDEX people_one_owner ON people (owner) WHERE owner = 1;
CREATE INDEX identities_person ON identities (person);
CREATE UNIQUE INDEX sessions_live_key ON sessions (key) WHERE status IN ('active', 'idle', 'compacted');
CREATE INDEX sessions_status ON sessions (status);
CREATE INDEX sessions_agent ON sessions (agent_id, created_at);
CREATE INDEX sessions_created ON sessions (created_at);
CREATE INDEX sessions_key ON sessions (key);
CREATE INDEX sessions_person ON sessions (person);
CREATE INDEX sessions_predecessor ON sessions (predecessor);
CREATE INDEX turns_session ON turns (session);
CREATE INDEX people_merged_into ON people (merged_into);
CREATE UNIQUE INDEX turns_one_pending ON turns (session) WHERE status = 'pending';
CREATE INDEX messages_changed ON messages (session, changed_at);
CREATE INDEX compactions_session ON compactions (session, id);
CREATE INDEX inbox_waiting ON inbox (key, id) WHERE state = 'waiting';
CREATE INDEX inbox_turn ON inbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX inbox_session ON inbox (session) WHERE session IS NOT NULL;
CREATE INDEX outbox_open ON outbox (place, id) WHERE state IN ('ready', 'sending');
CREATE INDEX outbox_unsettled ON outbox (state, id) WHERE state IN ('held', 'sending', 'parked');
CREATE INDEX outbox_turn ON outbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX participants_person ON participants (person, session);
CREATE INDEX participants_place ON participants (channel, account, session);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE INDEX sessions_ended ON sessions (updated_at, last_seq)
    WHERE status IN ('completed', 'cancelled', 'error', 'archived')
    ;
CREATE VIEW said AS SELECT id, json_extract(content, '$.text') AS text FROM messages WHERE json_extract(content, '$.type') = 'text' AND json_extract(content, '$.partial') IS NOT 1;
CREATE INDEX outbox_blocked ON outbox (place) WHERE blocked = 1;
CREATE INDEX overheard_key ON overheard (key, id);
CREATE INDEX turns_by_person ON turns (created_by, created_at) WHERE created_by IS NOT NULL;
CREATE INDEX turns_by_chat ON turns (chat, created_at) WHERE chat IS NOT NULL;
CREATE INDEX turns_by_agent ON turns (agent, created_at) WHERE agent IS NOT NULL;
CREATE INDEX turns_created ON turns (created_at);
CREATE INDEX turns_response ON turns (response_id) WHERE response_id IS NOT NULL;
CREATE INDEX allowances_scope ON allowances (budget, scope, at);
CREATE INDEX messages_pinned ON messages (session) WHERE json_extract(metadata, '$.pinned') = 1;
CREATE INDEX compactions_trim ON compactions (session, id) WHERE undone_at IS NULL AND strategy = 'trim_tools';
CREATE INDEX compactions_leave_out ON compactions (session, id) WHERE undone_at IS NULL AND strategy <> 'trim_tools';
CREATE INDEX compactions_base ON compactions (session, id) WHERE undone_at IS NULL AND strategy NOT IN ('window', 'trim_tools');
CREATE INDEX compactions_created ON compactions (session, created_at);
CREATE INDEX compactions_undone ON compactions (session, undone_at) WHERE undone_at IS NOT NULL;
CREATE INDEX outlays_session ON outlays (session);
CREATE INDEX outlays_created ON outlays (created_at);
CREATE INDEX questions_turn ON questions (turn);
CREATE INDEX questions_open ON questions (id) WHERE state = 'open';
CREATE INDEX outbox_question ON outbox (question) WHERE question IS NOT NULL;
CREATE UNIQUE INDEX repos_name ON repos (name) WHERE state = 'listed';
CREATE INDEX sessions_repo ON sessions (repo) WHERE repo IS NOT NULL;
CREATE TRIGGER turns_start_pending BEFORE INSERT ON turns WHEN NEW.status <> 'pending'
        BEGIN SELECT RAISE(ABORT, 'a turn starts as pending'); END;
CREATE TRIGGER turns_ended_is_final BEFORE UPDATE ON turns WHEN OLD.status <> 'pending' AND NOT (NEW.instruction_summary IS '[removed]' AND OLD.instruction_summary <> '[removed]' AND (NEW.id, NEW.public_id, NEW.status, NEW.mode, NEW.conversation_id, NEW.created_by, NEW.attempts, NEW.first_message, NEW.last_message, NEW.answer_summary, NEW.model, NEW.input_tokens, NEW.output_tokens, NEW.usage_source, NEW.warnings, NEW.errors, NEW.created_at, NEW.response_received_at, NEW.status_at, NEW.agent, NEW.chat, NEW.cached_tokens, NEW.reasoning_tokens, NEW.cost, NEW.response_id, NEW.previous_response_id, NEW.chain_expires_at, NEW.reserved_tokens, NEW.reserved_cost) IS (OLD.id, OLD.public_id, OLD.status, OLD.mode, OLD.conversation_id, OLD.created_by, OLD.attempts, OLD.first_message, OLD.last_message, OLD.answer_summary, OLD.model, OLD.input_tokens, OLD.output_tokens, OLD.usage_source, OLD.warnings, OLD.errors, OLD.created_at, OLD.response_received_at, OLD.status_at, OLD.agent, OLD.chat, OLD.cached_tokens, OLD.reasoning_tokens, OLD.cost, OLD.response_id, OLD.previous_response_id, OLD.chain_expires_at, OLD.reserved_tokens, OLD.reserved_cost))
        BEGIN SELECT RAISE(ABORT, 'an ended turn never changes'); END;
CREATE TRIGGER sessions_status BEFORE UPDATE OF status ON sessions
        WHEN NEW.status <> OLD.status AND NOT (
    (OLD.status IN ('active', 'compacted') AND NEW.status = 'idle')
    OR (OLD.status = 'active' AND NEW.status = 'compacted')
    OR (OLD.status IN ('idle', 'compacted') AND NEW.status = 'active')
    OR (OLD.status IN ('active', 'idle', 'compacted') AND NEW.status IN ('completed', 'cancelled', 'error'))
    OR (OLD.status <> 'archived' AND NEW.status = 'archived')
)
        BEGIN SELECT RAISE(ABORT, 'forbidden change of session status'); END;
CREATE TRIGGER sessions_repo BEFORE UPDATE OF repo ON sessions
        WHEN OLD.repo IS NOT NULL AND NEW.repo IS NOT OLD.repo
        BEGIN SELECT RAISE(ABORT, 'a session keeps its repository'); END;
CREATE TRIGGER sessions_touched AFTER UPDATE ON sessions WHEN NEW.updated_at = OLD.updated_at
        BEGIN UPDATE sessions SET updated_at = max((CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)), OLD.updated_at + 1) WHERE id = NEW.id; END;
CREATE TRIGGER search_added AFTER INSERT ON messages WHEN NEW.id <= (SELECT through FROM search_state WHERE id = 1) AND json_extract(NEW.content, '$.type') = 'text' AND json_extract(NEW.content, '$.partial') IS NOT 1
        BEGIN INSERT INTO search (rowid, text) VALUES (NEW.id, json_extract(NEW.content, '$.text')); END;
CREATE TRIGGER search_changed AFTER UPDATE OF content ON messages
        WHEN OLD.id <= (SELECT through FROM search_state WHERE id = 1) AND OLD.content <> NEW.content
        BEGIN
            INSERT INTO search (search, rowid, text) SELECT 'delete', OLD.id, json_extract(OLD.content, '$.text') WHERE json_extract(OLD.content, '$.type') = 'text' AND json_extract(OLD.content, '$.partial') IS NOT 1;
            INSERT INTO search (rowid, text) SELECT NEW.id, json_extract(NEW.content, '$.text') WHERE json_extract(NEW.content, '$.type') = 'text' AND json_extract(NEW.content, '$.partial') IS NOT 1;
        END;
CREATE TRIGGER search_removed AFTER DELETE ON messages WHEN OLD.id <= (SELECT through FROM search_state WHERE id = 1) AND json_extract(OLD.content, '$.type') = 'text' AND json_extract(OLD.content, '$.partial') IS NOT 1
        BEGIN INSERT INTO search (search, rowid, text) VALUES ('delete', OLD.id, json_extract(OLD.content, '$.text')); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',5);
INSERT INTO "sqlite_sequence" VALUES('sessions',3);
INSERT INTO "sqlite_sequence" VALUES('outbox',5);
INSERT INTO "sqlite_sequence" VALUES('refusals',1);
INSERT INTO "sqlite_sequence" VALUES('pairings',1);
INSERT INTO "sqlite_sequence" VALUES('overheard',1);
INSERT INTO "sqlite_sequence" VALUES('allowances',1);
INSERT INTO "sqlite_sequence" VALUES('questions',2);
CREATE VIRTUAL TABLE search USING fts5(text, content='said', content_rowid='id', columnsize=0, tokenize='unicode61 remove_diacritics 2');
INSERT INTO search (search) VALUES ('rebuild');
COMMIT;
