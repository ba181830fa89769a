// Bodies of metrics_file.hpp.
#pragma once

#include <cmath>        // isfinite
#include <concepts>     // same_as
#include <fstream>      // lines
#include <iterator>     // back_inserter
#include <optional>     // an event
#include <type_traits>  // is_arithmetic_v

#include <fmt/core.h>  // numbers

#include <gx/io/json_text.hpp>    // json_quoted
#include <gx/io/json_value.hpp>   // read_json
#include <gx/reflect/fields.hpp>  // for_each_field
#include <gx/trainer/monitor/metrics_file.hpp>
#include <gx/trainer/rows.hpp>  // key

namespace gx {

namespace detail::metrics_file {

/// Appends a field; numbers without an allocation.
template <class T>
void put(std::string& to, std::string_view key, const T& x) {
    to += to.back() == '{' ? "\"" : ",\"";
    to += key;
    to += "\":";
    if constexpr (std::same_as<T, bool>) to += x ? "true" : "false";
    else if constexpr (std::is_arithmetic_v<T>) {
        if (std::isfinite(double(x))) fmt::format_to(std::back_inserter(to), "{}", x);
        else to += "null";
    } else {
        to += json_quoted(x);
    }
}
template <class Row>
void put_row(std::string& to, const Row& row, auto keeps) {
    for_each_field(row, [&](std::string_view name, const auto& x) {
        if constexpr (std::same_as<decltype(x), const Breakdown&>) put_row(to, x, keeps);
        else if (keeps(name)) put(to, detail::rows::key(name), x);
    });
}

struct Event {
    std::string name{};
    std::int64_t step = 0, epoch = 0;
};
/// None: a line of another program.
GX_DECL std::optional<Event> event_of(const std::string& line) {
    try {
        const JsonValue event = read_json(line);
        Event found{event.at("event").string(), event.at("step").integer()};
        if (found.name == "epoch") found.epoch = event.at("epoch").integer();
        return found;
    } catch (const JsonError&) {
        return std::nullopt;
    }
}

/// Whether a run that goes on at `step`, in `epoch`, makes this event again.
GX_DECL bool is_later(const Event& event, std::int64_t step, int epoch) {
    if (event.name == "epoch") return event.epoch >= epoch;
    return event.name == "step" ? event.step >= step : event.step > step;
}

}  // namespace detail::metrics_file

GX_DECL void MetricsFile::begin(std::string_view event, std::int64_t step) {
    line_ = "{";
    detail::metrics_file::put(line_, "event", event);
    detail::metrics_file::put(line_, "step", step);
}
GX_DECL void MetricsFile::end() {
    line_ += "}\n";
    file_->append(line_);
}

GX_DECL void MetricsFile::cut_at(std::int64_t step, int epoch) {
    if (!file_->is_regular()) return;  // what a pipe has had is not to be read here
    std::uint64_t kept = 0;
    std::string checkpoints;  // valid still, though they were written beside later steps
    bool later = false, ends_again = false;
    std::ifstream in(path_, std::ios::binary);
    for (std::string line; std::getline(in, line) && !in.eof();) {  // eof: no end of line
        const auto event = detail::metrics_file::event_of(line);
        later = later || !event || detail::metrics_file::is_later(*event, step, epoch);
        if (!later) kept += line.size() + 1;
        if (!later || !event) continue;
        if (event->name == "epoch") ends_again = ends_again || event->step == step;
        const bool again = event->step > step || (event->step == step && ends_again);
        if (event->name == "checkpoint" && !again) checkpoints += line + "\n";
    }
    file_->cut(kept);
    if (!checkpoints.empty()) file_->append(checkpoints);
}

GX_DECL void MetricsFile::run_begins(const RunStart& run) {
    file_.emplace(path_);
    if (run.first_step == 0) file_->cut(0);
    else cut_at(run.first_step, run.first_epoch);
    const RunRecord& r = run.record;
    done_ = run.first_step;
    begin("start", done_);
    for (const auto& [key, text] : {std::pair{"composition", &r.composition},
                                    {"model", &r.model},
                                    {"device", &r.device},
                                    {"world", &r.world},
                                    {"clock", &r.clock}})
        detail::metrics_file::put(line_, key, *text);
    detail::metrics_file::put(line_, "ranks", r.ranks);
    detail::metrics_file::put(line_, "batch_per_rank_images", r.batch_per_rank);
    detail::metrics_file::put(line_, "epochs_planned", r.epochs_planned);
    detail::metrics_file::put(line_, "seed", r.seed);
    end();
}

GX_DECL void MetricsFile::step_done(const StepDone& s) {
    done_ = s.step + 1;
    line_ = R"({"event":"step")";
    detail::metrics_file::put_row(line_, s, [](std::string_view) { return true; });
    end();
}

GX_DECL void MetricsFile::epoch_done(const EpochDone& e) {
    begin("epoch", e.row.step);
    detail::metrics_file::put_row(line_, e.row, [&](std::string_view name) {
        return name != "step" && (e.tested || !name.starts_with("test_"));
    });
    end();
}

GX_DECL void MetricsFile::checkpoint_written(const CheckpointWritten& c) {
    begin("checkpoint", c.step);
    detail::metrics_file::put(line_, "file", c.file.string());
    end();
}

GX_DECL void MetricsFile::ranks_lost(const RanksLost& lost) {
    const LossRow& loss = lost.row;
    done_ = loss.step;
    cut_at(loss.step, lost.first_epoch);
    begin("lost", loss.step);
    detail::metrics_file::put(line_, "ranks", loss.ranks);
    line_ += ",\"lost\":[";
    for (std::size_t i = 0; i < loss.lost.size(); ++i)
        fmt::format_to(std::back_inserter(line_), "{}{}", i > 0 ? "," : "", loss.lost[i]);
    line_ += "]";
    detail::metrics_file::put(line_, "error", loss.error);
    end();
}

GX_DECL void MetricsFile::run_ended(const RunRecord& r) {
    begin("end", done_);
    detail::metrics_file::put(line_, "weights_hash", fmt::format("{:016x}", r.weights_hash));
    end();
}
GX_DECL void MetricsFile::run_failed(std::string_view error) {
    begin("failed", done_);
    detail::metrics_file::put(line_, "error", error);
    end();
}

}  // namespace gx
