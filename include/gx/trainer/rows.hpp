// The rows of a run record as JSON text, both ways: what a checkpoint keeps of a record.
#pragma once

#include <string>       // text
#include <string_view>  // text
#include <utility>      // move
#include <vector>       // rows

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/json_text.hpp>   // JsonWriter
#include <gx/core/json_value.hpp>  // read_json
#include <gx/trainer/record.hpp>   // RunRecord

namespace gx {

/// Steps, epochs and breakdown so far, as JSON text; units in the field names.
GX_COLD [[nodiscard]] inline std::string rows_text(const RunRecord& r) {
    JsonWriter w;
    w.open('{').name("breakdown").open('{');
    w.field("compute_seconds", r.breakdown.compute);
    w.field("exposed_communication_seconds", r.breakdown.exposed_communication);
    w.field("input_seconds", r.breakdown.input).field("idle_seconds", r.breakdown.idle);
    w.close('}').field("skipped_steps", r.skipped_steps).name("epochs").open('[');
    for (const EpochRow& e : r.epochs) {
        w.open('{').field("epoch", e.epoch).field("step", e.step).field("seconds", e.seconds);
        w.field("train_loss_nats", e.train_loss).field("train_accuracy_pct", e.train_accuracy_pct);
        w.field("test_loss_nats", e.test_loss).field("test_accuracy_pct", e.test_accuracy_pct);
        w.field("images_per_second", e.images_per_second).close('}');
    }
    w.close(']').name("steps").open('[');
    for (const StepRow& s : r.steps) {
        w.open('{').field("step", s.step).field("skipped", s.skipped).field("seconds", s.seconds);
        w.field("loss_nats", s.loss).field("rate", s.rate).field("loss_scale", s.loss_scale);
        w.close('}');
    }
    return w.close(']').close('}').text();
}

/// Takes back what rows_text wrote; what `r` had of it before goes away.
/// Errors: JsonError for a text that is not JSON or a field that is missing; `r` is then untouched.
GX_COLD inline void read_rows(std::string_view text, RunRecord& r) {
    const JsonValue rows = read_json(text);
    const JsonValue& b = rows.at("breakdown");
    const Breakdown breakdown{
        b.at("compute_seconds").number(), b.at("exposed_communication_seconds").number(),
        b.at("input_seconds").number(), b.at("idle_seconds").number()};
    const auto skipped_steps = rows.at("skipped_steps").integer();
    std::vector<EpochRow> epochs;
    for (const JsonValue& e : rows.at("epochs").array())
        epochs.push_back({e.at("epoch").integer<int>(), e.at("step").integer(),
                          e.at("seconds").number(), e.at("train_loss_nats").number(),
                          e.at("train_accuracy_pct").number(), e.at("test_loss_nats").number(),
                          e.at("test_accuracy_pct").number(),
                          e.at("images_per_second").number()});
    std::vector<StepRow> steps;
    for (const JsonValue& s : rows.at("steps").array())
        steps.push_back({s.at("step").integer(), s.at("seconds").number(),
                         s.at("loss_nats").number(), s.at("rate").number(),
                         s.at("loss_scale").number(), s.at("skipped").boolean()});
    r.breakdown = breakdown;
    r.skipped_steps = skipped_steps;
    r.epochs = std::move(epochs);
    r.steps = std::move(steps);
}

}  // namespace gx
