#include <tools/common/gunzip.hpp>

#include <zlib.h>  // inflate

#include <algorithm>  // min
#include <array>      // a piece

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>  // Error

namespace gx::tools {

namespace {

/// zlib's state, which is released at the end.
struct Stream {
    z_stream z{};
    Stream() {
        constexpr int window = 15, gzip_alone = 16;
        if (inflateInit2(&z, window + gzip_alone) != Z_OK) throw Error("zlib: no memory is left");
    }
    ~Stream() { inflateEnd(&z); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
};

}  // namespace

bool is_gzip(std::string_view text) { return text.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view packed, const std::string& file, std::size_t most) {
    const auto damaged = [&](std::string_view what) {
        return Error(fmt::format("{}: {}. The file is damaged: get it again", file, what));
    };
    std::string contents;
    std::array<char, 1 << 16> piece;
    Stream stream;
    z_stream& z = stream.z;
    for (int status = Z_STREAM_END; status != Z_STREAM_END || !packed.empty();) {
        if (status == Z_STREAM_END) {
            if (!is_gzip(packed)) throw damaged("other bytes follow its gzip stream");
            inflateReset(&z);
        }
        const std::size_t given = std::min<std::size_t>(packed.size(), 1 << 20);
        z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
        z.avail_in = static_cast<uInt>(given);
        z.next_out = reinterpret_cast<Bytef*>(piece.data());
        z.avail_out = static_cast<uInt>(piece.size());
        status = inflate(&z, Z_NO_FLUSH);
        packed.remove_prefix(given - z.avail_in);
        contents.append(piece.data(), piece.size() - z.avail_out);
        if (contents.size() > most)
            throw Error(
                fmt::format("{}: it holds more than {} bytes, the most that is read", file, most));
        if (status == Z_BUF_ERROR) throw damaged("the gzip stream ends before its check sum");
        if (status != Z_OK && status != Z_STREAM_END)
            throw damaged(fmt::format("the gzip stream is wrong: {}",
                                      z.msg != nullptr ? z.msg : "zlib gives no reason"));
    }
    return contents;
}

}  // namespace gx::tools
