// Bodies of event_file.hpp.
#pragma once

#include <bit>   // bit_cast
#include <span>  // bytes

#include <gx/io/crc32c.hpp>  // masked_crc32c
#include <gx/trainer/monitor/event_file.hpp>

namespace gx {

namespace detail::event_file {

/// Types of fields on the wire.
enum Wire : unsigned { varint, fixed64, counted, fixed32 = 5 };

GX_DECL void put_fixed(std::string& to, std::uint64_t x, int width) {
    for (int i = 0; i < width; ++i, x >>= 8) to.push_back(static_cast<char>(x & 255));
}
GX_DECL void put_varint(std::string& to, std::uint64_t x) {
    for (; x >= 128; x >>= 7) to.push_back(static_cast<char>((x & 127) | 128));
    to.push_back(static_cast<char>(x));
}
GX_DECL void put_key(std::string& to, unsigned field, Wire wire) {
    put_varint(to, field << 3 | wire);
}
GX_DECL void put_bytes(std::string& to, unsigned field, std::string_view value) {
    put_key(to, field, counted);
    put_varint(to, value.size());
    to.append(value);
}
[[nodiscard]] GX_DECL std::uint32_t crc_of(std::string_view text) {
    return masked_crc32c({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

// Numbers of fields.
inline constexpr unsigned event_wall_time = 1, event_step = 2, event_file_version = 3,
                          event_summary = 5, event_session_log = 7;
inline constexpr unsigned summary_value = 1, value_tag = 1, value_simple = 2;
inline constexpr unsigned session_status = 1, status_start = 1;

}  // namespace detail::event_file

GX_DECL EventFile::EventFile(const std::filesystem::path& path, double unix_seconds) : file_(path) {
    begin_event(0, unix_seconds);
    detail::event_file::put_bytes(event_, detail::event_file::event_file_version, "brain.Event:2");
    write_event();
}

GX_DECL void EventFile::begin_event(std::int64_t step, double unix_seconds) {
    using namespace detail::event_file;
    event_.clear();
    put_key(event_, event_wall_time, fixed64);
    put_fixed(event_, std::bit_cast<std::uint64_t>(unix_seconds), 8);
    if (step == 0) return;  // as protocol buffers leave out what is zero
    put_key(event_, event_step, varint);
    put_varint(event_, std::uint64_t(step));
}

GX_DECL void EventFile::write_event() {
    using namespace detail::event_file;
    record_.clear();
    put_fixed(record_, event_.size(), 8);
    put_fixed(record_, crc_of(record_), 4);
    record_.append(event_);
    put_fixed(record_, crc_of(event_), 4);
    file_.append(record_);
}

GX_DECL void EventFile::begin(std::int64_t step, double unix_seconds) {
    begin_event(step, unix_seconds);
    summary_.clear();
}

GX_DECL void EventFile::add(std::string_view tag, double value) {
    using namespace detail::event_file;
    record_.clear();  // free until the event is written
    put_bytes(record_, value_tag, tag);
    put_key(record_, value_simple, fixed32);
    put_fixed(record_, std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
    put_bytes(summary_, summary_value, record_);
}

GX_DECL void EventFile::end() {
    detail::event_file::put_bytes(event_, detail::event_file::event_summary, summary_);
    write_event();
}

GX_DECL void EventFile::restart(std::int64_t step, double unix_seconds) {
    using namespace detail::event_file;
    begin_event(step, unix_seconds);
    put_key(event_, event_session_log, counted);
    put_varint(event_, 2);
    put_key(event_, session_status, varint);
    put_varint(event_, status_start);
    write_event();
}

}  // namespace gx
