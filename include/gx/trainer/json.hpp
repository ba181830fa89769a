// A run record as JSON: units in the field names.
#pragma once

#include <nlohmann/json.hpp>  // ordered_json

#include <gx/trainer/record.hpp>  // RunRecord
#include <gx/trainer/rows.hpp>    // rows_text

namespace gx {

/// All of the record but the timeline, which is a trace of its own.
[[nodiscard]] inline nlohmann::ordered_json to_json(const RunRecord& r) {
    nlohmann::ordered_json j{{"composition", r.composition},
                             {"model", r.model},
                             {"reducer", r.reducer},
                             {"scheduler", r.scheduler},
                             {"optimizer", r.optimizer},
                             {"device", r.device},
                             {"world", r.world},
                             {"clock", r.clock},
                             {"timed_as", r.timed_as},
                             {"notes", r.notes},
                             {"ranks", r.ranks},
                             {"batch_per_rank_images", r.batch_per_rank},
                             {"epochs_planned", r.epochs_planned},
                             {"seed", r.seed},
                             {"seconds", r.seconds},
                             {"images", r.images},
                             {"images_per_second", r.images_per_second},
                             {"test_accuracy_pct", r.test_accuracy_pct()},
                             {"scaling_efficiency_pct", r.scaling_efficiency_pct},
                             {"exposed_communication_pct", r.exposed_communication_pct},
                             {"dollars", r.dollars},
                             {"bytes_sent_per_step", r.bytes_sent_per_step},
                             {"event_hash", r.event_hash},
                             {"weights_hash", r.weights_hash},
                             {"wall_seconds", r.wall_seconds}};
    j.update(nlohmann::ordered_json::parse(rows_text(r)));
    return j;
}

}  // namespace gx
