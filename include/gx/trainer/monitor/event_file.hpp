// EventFile: scalars by step in a file that TensorBoard shows.
#pragma once

#include <cstdint>      // int64_t
#include <filesystem>   // path
#include <string>       // buffers
#include <string_view>  // tags

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/io/append_file.hpp>  // AppendFile

namespace gx {

/// A file of TensorBoard's events: TFRecord frames of protocol buffers of the type `Event`.
///
///     EventFile file("out/events.out.tfevents.1700000000.host", 1.7e9);
///     file.begin(12, 1.7e9 + 60);
///     file.add("step/rate", 0.1);
///     file.end();
///
/// Format: version "brain.Event:2"; a value is a 32-bit `simple_value` under its tag; a restart is
///         a SessionLog with status START, behind which TensorBoard drops later steps seen before.
/// Units:  times in seconds since 1970.
/// Errors: gx::Error as AppendFile's.
/// Cost:   one system call an event; allocates in the first ones only.
/// Source: event.proto and summary.proto in tensorflow/core; tensorflow.org/tutorials/load_data/
///         tfrecord for the frame.
class EventFile {
public:
    GX_DECL EventFile(const std::filesystem::path& path, double unix_seconds);

    /// Between begin() and end() come the values of one event.
    GX_DECL void begin(std::int64_t step, double unix_seconds);
    GX_DECL void add(std::string_view tag, double value);
    GX_DECL void end();
    /// From here on `step` and those behind it are made again.
    GX_DECL void restart(std::int64_t step, double unix_seconds);
    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

private:
    void begin_event(std::int64_t step, double unix_seconds);
    void write_event();

    AppendFile file_;
    std::string event_{}, summary_{}, record_{};
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/event_file.ipp>
#endif
