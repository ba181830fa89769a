// A run record as JSON: units in the field names.
#pragma once

#include <nlohmann/json.hpp>  // ordered_json

#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

/// Steps, epochs and breakdown so far: what a checkpoint keeps of a record.
[[nodiscard]] inline nlohmann::ordered_json rows_to_json(const RunRecord& r) {
    nlohmann::ordered_json j;
    j["breakdown"] = {{"compute_seconds", r.breakdown.compute},
                      {"exposed_communication_seconds", r.breakdown.exposed_communication},
                      {"input_seconds", r.breakdown.input},
                      {"idle_seconds", r.breakdown.idle}};
    j["skipped_steps"] = r.skipped_steps;
    auto& epochs = j["epochs"] = nlohmann::ordered_json::array();
    for (const auto& e : r.epochs)
        epochs.push_back({{"epoch", e.epoch}, {"step", e.step}, {"seconds", e.seconds},
                          {"train_loss_nats", e.train_loss},
                          {"train_accuracy_pct", e.train_accuracy_pct},
                          {"test_loss_nats", e.test_loss},
                          {"test_accuracy_pct", e.test_accuracy_pct},
                          {"images_per_second", e.images_per_second}});
    auto& steps = j["steps"] = nlohmann::ordered_json::array();
    for (const auto& s : r.steps)
        steps.push_back({{"step", s.step}, {"seconds", s.seconds}, {"loss_nats", s.loss},
                         {"rate", s.rate}, {"loss_scale", s.loss_scale}, {"skipped", s.skipped}});
    return j;
}

/// Takes back what rows_to_json wrote.
/// Errors: nlohmann::ordered_json::exception for a field that is missing.
inline void rows_from_json(const nlohmann::ordered_json& j, RunRecord& r) {
    const auto& b = j.at("breakdown");
    r.breakdown = {b.at("compute_seconds"), b.at("exposed_communication_seconds"),
                   b.at("input_seconds"), b.at("idle_seconds")};
    r.skipped_steps = j.at("skipped_steps");
    r.epochs.clear();
    for (const auto& e : j.at("epochs"))
        r.epochs.push_back({e.at("epoch"), e.at("step"), e.at("seconds"), e.at("train_loss_nats"),
                            e.at("train_accuracy_pct"), e.at("test_loss_nats"),
                            e.at("test_accuracy_pct"), e.at("images_per_second")});
    r.steps.clear();
    for (const auto& s : j.at("steps"))
        r.steps.push_back({s.at("step"), s.at("seconds"), s.at("loss_nats"), s.at("rate"),
                           s.at("loss_scale"), s.at("skipped")});
}

/// All of the record but the timeline, which is a trace of its own.
[[nodiscard]] inline nlohmann::ordered_json to_json(const RunRecord& r) {
    nlohmann::ordered_json j{
        {"composition", r.composition}, {"model", r.model}, {"reducer", r.reducer},
        {"scheduler", r.scheduler}, {"optimizer", r.optimizer}, {"device", r.device},
        {"world", r.world}, {"clock", r.clock}, {"timed_as", r.timed_as}, {"notes", r.notes},
        {"ranks", r.ranks}, {"batch_per_rank_images", r.batch_per_rank},
        {"epochs_planned", r.epochs_planned}, {"seed", r.seed},
        {"seconds", r.seconds}, {"images", r.images}, {"images_per_second", r.images_per_second},
        {"test_accuracy_pct", r.test_accuracy_pct()},
        {"scaling_efficiency_pct", r.scaling_efficiency_pct},
        {"exposed_communication_pct", r.exposed_communication_pct}, {"dollars", r.dollars},
        {"bytes_sent_per_step", r.bytes_sent_per_step},
        {"event_hash", r.event_hash}, {"weights_hash", r.weights_hash},
        {"wall_seconds", r.wall_seconds}};
    j.update(rows_to_json(r));
    return j;
}

}  // namespace gx
