#include "coordinator/store/schema.h"

namespace qgpu {
namespace {

// Who and what: machine, build, model. What was asked: suite, suite_case, run, node, item. What came of it: attempt,
// launch, sample. Times are Unix time in milliseconds.
constexpr const char* kStep1 = R"sql(
CREATE TABLE machine (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL, operating_system TEXT NOT NULL, processor TEXT NOT NULL,
  logical_processors INTEGER NOT NULL, accelerator TEXT NOT NULL,
  UNIQUE (name, operating_system, processor, logical_processors, accelerator)
) STRICT;
CREATE TABLE build (
  id INTEGER PRIMARY KEY,
  program TEXT NOT NULL, version TEXT NOT NULL, commit_hash TEXT NOT NULL, build_type TEXT NOT NULL,
  UNIQUE (program, version, commit_hash, build_type)
) STRICT;
CREATE TABLE model (
  id INTEGER PRIMARY KEY,
  circuit_sha256 TEXT NOT NULL, circuit_hash TEXT NOT NULL, base TEXT NOT NULL, base_hidden INTEGER NOT NULL,
  layers INTEGER NOT NULL, added_width INTEGER NOT NULL, form TEXT NOT NULL,
  UNIQUE (circuit_sha256, base, base_hidden, form)
) STRICT;
CREATE TABLE suite (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL, hash TEXT NOT NULL,
  UNIQUE (name, hash)
) STRICT;
CREATE TABLE suite_case (
  id INTEGER PRIMARY KEY,
  suite_id INTEGER NOT NULL REFERENCES suite(id),
  kernel TEXT NOT NULL, name TEXT NOT NULL, hash TEXT NOT NULL,
  UNIQUE (suite_id, kernel, name)
) STRICT;
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  started_ms INTEGER NOT NULL, finished_ms INTEGER,
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted')),
  exit_code INTEGER,
  quick INTEGER NOT NULL, repetitions INTEGER NOT NULL,
  manifest TEXT NOT NULL
) STRICT;
CREATE TABLE run_suite (
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  suite_id INTEGER NOT NULL REFERENCES suite(id),
  PRIMARY KEY (run_id, suite_id)
) STRICT;
CREATE TABLE node (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('worker', 'oracle', 'coordinator')),
  name TEXT NOT NULL, address TEXT NOT NULL,
  machine_id INTEGER NOT NULL REFERENCES machine(id),
  build_id INTEGER NOT NULL REFERENCES build(id),
  model_id INTEGER REFERENCES model(id),
  UNIQUE (run_id, role, name)
) STRICT;
CREATE TABLE item (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES suite_case(id),
  node_id INTEGER NOT NULL REFERENCES node(id),
  repetition INTEGER NOT NULL,
  status TEXT,
  UNIQUE (run_id, case_id, node_id, repetition)
) STRICT;
CREATE TABLE attempt (
  id TEXT PRIMARY KEY,
  item_id INTEGER NOT NULL REFERENCES item(id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  started_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL,
  status TEXT NOT NULL, message TEXT NOT NULL,
  UNIQUE (item_id, number)
) STRICT;
CREATE TABLE launch (
  attempt_id TEXT PRIMARY KEY REFERENCES attempt(id) ON DELETE CASCADE,
  host_tokens INTEGER NOT NULL, tokens INTEGER NOT NULL, passes INTEGER NOT NULL,
  positions_checked INTEGER NOT NULL, mismatches INTEGER NOT NULL,
  end_kind TEXT NOT NULL, odd_one_out TEXT NOT NULL, native_witness TEXT NOT NULL,
  token_position INTEGER, token_expected TEXT, token_got TEXT,
  word_place TEXT, word_index INTEGER, word_model INTEGER, word_interpreter INTEGER, word_native INTEGER,
  word_position INTEGER
) STRICT;
CREATE TABLE sample (
  attempt_id TEXT NOT NULL REFERENCES attempt(id) ON DELETE CASCADE,
  metric TEXT NOT NULL, unit TEXT NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (attempt_id, metric)
) STRICT;
CREATE INDEX item_of_run ON item(run_id);
)sql";

// Drift: what a measurement is of, and every position of it. Both belong to an item and grow over its attempts; the
// noise columns are NULL where it was not measured. A run keeps its arguments (a JSON list), so that it can be taken
// up.
constexpr const char* kStep2 = R"sql(
ALTER TABLE suite ADD COLUMN kind TEXT NOT NULL DEFAULT 'kernels' CHECK (kind IN ('kernels', 'drift'));
ALTER TABLE run ADD COLUMN arguments TEXT NOT NULL DEFAULT '[]';
CREATE TABLE drift_measurement (
  item_id INTEGER PRIMARY KEY REFERENCES item(id) ON DELETE CASCADE,
  measurement TEXT NOT NULL, positions INTEGER NOT NULL,
  token_source TEXT NOT NULL, reference TEXT NOT NULL, merged TEXT NOT NULL
) STRICT;
CREATE TABLE drift_position (
  item_id INTEGER NOT NULL REFERENCES drift_measurement(item_id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  kl REAL NOT NULL, machine_share REAL NOT NULL, base_surprise REAL NOT NULL, merged_surprise REAL NOT NULL,
  same_top INTEGER NOT NULL, top_overlap INTEGER NOT NULL,
  predicted TEXT NOT NULL,
  noise_kl REAL, noise_base_surprise REAL, noise_surprise REAL, noise_same_top INTEGER, noise_top_overlap INTEGER,
  PRIMARY KEY (item_id, position)
) STRICT, WITHOUT ROWID;
)sql";

}  // namespace

const std::vector<const char*>& SchemaSteps() {
  static const std::vector<const char*> steps = {kStep1, kStep2};
  return steps;
}

}  // namespace qgpu
