// Drift measurements in the store, written chunk by chunk.
#include "coordinator/store/store.h"

namespace qgpu {

absl::Status Store::BeginDrift(int64_t item_id, const DriftRow& measurement) {
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  QGPU_ASSIGN_OR_RETURN(Statement drop, database_->Prepare("DELETE FROM drift_measurement WHERE item_id = ?"));
  QGPU_RETURN_IF_ERROR(drop.Bind(item_id).Run());  // and its positions with it
  QGPU_ASSIGN_OR_RETURN(Statement insert,
                        database_->Prepare("INSERT INTO drift_measurement VALUES (?, ?, ?, ?, ?, ?)"));
  insert.Bind(item_id).Bind(measurement.measurement).Bind(measurement.positions);
  insert.Bind(measurement.token_source).Bind(measurement.reference).Bind(measurement.merged);
  QGPU_RETURN_IF_ERROR(insert.Run());
  return transaction.Commit();
}

absl::Status Store::AppendDrift(int64_t item_id, int64_t first_position, std::span<const RowDrift> rows,
                                std::span<const RowDrift> noise, std::span<const std::string> predicted) {
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  QGPU_ASSIGN_OR_RETURN(Statement count, database_->Prepare("SELECT count(*) FROM drift_position WHERE item_id = ?"));
  QGPU_RETURN_IF_ERROR(count.Bind(item_id).Step().status());
  if (count.Integer(0) != first_position) {
    return absl::InternalError(fmt::format("database {}: drift rows from position {} on, {} are there",
                                           database_->path(), first_position, count.Integer(0)));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(
        Statement insert,
        database_->Prepare("INSERT INTO drift_position VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    const RowDrift& row = rows[i];
    insert.Bind(item_id).Bind(first_position + static_cast<int64_t>(i)).Bind(row.kl).Bind(row.machine_share);
    insert.Bind(row.base_surprise).Bind(row.merged_surprise).Bind(row.same_top).Bind(row.top_overlap);
    insert.Bind(predicted[i]);
    if (noise.empty()) {
      insert.BindNull().BindNull().BindNull().BindNull().BindNull();
    } else {
      insert.Bind(noise[i].kl).Bind(noise[i].base_surprise).Bind(noise[i].merged_surprise);
      insert.Bind(noise[i].same_top).Bind(noise[i].top_overlap);
    }
    QGPU_RETURN_IF_ERROR(insert.Run());
  }
  return transaction.Commit();
}

absl::Status Store::CutDrift(int64_t item_id, int64_t position) {
  QGPU_ASSIGN_OR_RETURN(Statement cut,
                        database_->Prepare("DELETE FROM drift_position WHERE item_id = ? AND position >= ?"));
  return cut.Bind(item_id).Bind(position).Run();
}

absl::StatusOr<std::optional<DriftRow>> Store::ReadDrift(int64_t item_id) {
  QGPU_ASSIGN_OR_RETURN(
      Statement read,
      database_->Prepare("SELECT d.measurement, d.positions, d.token_source, d.reference, d.merged, c.name FROM "
                         "drift_measurement d JOIN item i ON i.id = d.item_id JOIN suite_case c ON c.id = i.case_id "
                         "WHERE d.item_id = ?"));
  QGPU_ASSIGN_OR_RETURN(const bool found, read.Bind(item_id).Step());
  if (!found) return std::nullopt;
  DriftRow row;
  row.measurement = read.Text(0);
  row.positions = read.Integer(1);
  row.token_source = read.Text(2);
  row.reference = read.Text(3);
  row.merged = read.Text(4);
  row.drift.name = row.noise.name = read.Text(5);
  QGPU_RETURN_IF_ERROR(ReadDriftRows(item_id, row));
  return row;
}

absl::Status Store::ReadDriftRows(int64_t item_id, DriftRow& row) {
  QGPU_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Prepare("SELECT kl, machine_share, base_surprise, merged_surprise, same_top, top_overlap, predicted, "
                         "noise_kl, noise_base_surprise, noise_surprise, noise_same_top, noise_top_overlap FROM "
                         "drift_position WHERE item_id = ? ORDER BY position"));
  rows.Bind(item_id);
  while (true) {
    QGPU_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return absl::OkStatus();
    row.drift.rows.push_back({rows.Real(0), rows.Real(1), rows.Real(2), rows.Real(3), rows.Integer(4) != 0,
                              static_cast<int>(rows.Integer(5))});
    row.predicted.push_back(rows.Text(6));
    if (rows.IsNull(7)) continue;
    // The base against itself: no machine ids.
    row.noise.rows.push_back(
        {rows.Real(7), 0, rows.Real(8), rows.Real(9), rows.Integer(10) != 0, static_cast<int>(rows.Integer(11))});
  }
}

}  // namespace qgpu
