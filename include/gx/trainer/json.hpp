// A run record as JSON: units in the field names.
#pragma once

#include <string>       // text
#include <string_view>  // names

#include <fmt/format.h>       // numbers
#include <nlohmann/json.hpp>  // ordered_json

#include <gx/core/json_text.hpp>  // json_number
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

/// Steps, epochs and breakdown so far, as JSON text: what a checkpoint keeps of a record.
[[nodiscard]] inline std::string rows_text(const RunRecord& r) {
    std::string text;
    const char* comma = "";
    const auto field = [&](std::string_view name, double value) {
        text += fmt::format("{}\"{}\":{}", comma, name, json_number(value));
        comma = ",";
    };
    const auto open = [&](std::string_view bracket) {
        text += bracket;
        comma = "";
    };
    open("{\"breakdown\":{");
    field("compute_seconds", r.breakdown.compute);
    field("exposed_communication_seconds", r.breakdown.exposed_communication);
    field("input_seconds", r.breakdown.input);
    field("idle_seconds", r.breakdown.idle);
    text += fmt::format("}},\"skipped_steps\":{},\"epochs\":[", r.skipped_steps);
    for (const EpochRow& e : r.epochs) {
        open(&e == r.epochs.data() ? "{" : ",{");
        text += fmt::format("\"epoch\":{},\"step\":{},", e.epoch, e.step);
        field("seconds", e.seconds);
        field("train_loss_nats", e.train_loss);
        field("train_accuracy_pct", e.train_accuracy_pct);
        field("test_loss_nats", e.test_loss);
        field("test_accuracy_pct", e.test_accuracy_pct);
        field("images_per_second", e.images_per_second);
        text += "}";
    }
    text += "],\"steps\":[";
    for (const StepRow& s : r.steps) {
        open(&s == r.steps.data() ? "{" : ",{");
        text += fmt::format("\"step\":{},\"skipped\":{},", s.step, s.skipped);
        field("seconds", s.seconds);
        field("loss_nats", s.loss);
        field("rate", s.rate);
        field("loss_scale", s.loss_scale);
        text += "}";
    }
    return text + "]}";
}

/// Takes back what rows_text wrote.
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
