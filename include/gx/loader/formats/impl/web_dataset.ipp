// Members of tar files, and the samples that they form.
#pragma once

#include <algorithm>      // find, all_of
#include <cctype>         // tolower
#include <charconv>       // from_chars
#include <optional>       // overrides
#include <string_view>    // fields
#include <unordered_set>  // keys
#include <utility>        // exchange

#include <fmt/core.h>  // sentences

#include <gx/loader/formats/detail/scanner.hpp>  // Scanner, index_of
#include <gx/loader/formats/web_dataset.hpp>     // the declarations

namespace gx {

namespace detail::web_dataset {

using encoded::CorruptRecord;
using encoded::Flaw;
using encoded::Index;
using encoded::quoted_text;
using encoded::Scanner;

inline constexpr std::size_t block = 512, name_most = 1 << 16, pax_most = 1 << 20;

using Header = std::span<const std::uint8_t>;  // one block

// ---- Fields of a header ---------------------------------------------------------------------

/// Text up to the first 0.
[[nodiscard]] inline std::string_view text_of(std::span<const std::uint8_t> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.substr(0, text.find('\0'));
}
/// Octal digits with blanks around them, or GNU's binary with the highest bit set; an empty field
/// is 0, as the size of a volume's label. Throws Flaw.
[[nodiscard]] inline std::uint64_t number_of(std::span<const std::uint8_t> field,
                                             const char* name) {
    std::uint64_t x = 0;
    if (field[0] & 0x80) {
        for (std::size_t i = 0; i < field.size(); ++i) {
            if (x >> 56) throw Flaw(fmt::format("the {} in its header is too large", name));
            x = x << 8 | (i == 0 ? field[0] & 0x7fu : field[i]);
        }
        return x;
    }
    std::string_view digits = text_of(field);
    while (digits.starts_with(' ')) digits.remove_prefix(1);
    while (digits.ends_with(' ')) digits.remove_suffix(1);
    if (digits.empty()) return 0;
    const auto [end, trouble] = std::from_chars(digits.data(), digits.data() + digits.size(), x, 8);
    if (trouble != std::errc{} || end != digits.data() + digits.size())
        throw Flaw(fmt::format("the {} in its header is no octal number", name));
    return x;
}
/// Throws Flaw unless the checksum is that of the header with blanks in its place: of its bytes or,
/// as some tars of long ago have it, of its bytes with a sign.
inline void expect_checksum(Header header) {
    std::int64_t sum = 8 * ' ', of_signed = sum;
    for (std::size_t i = 0; i < block; ++i) {
        if (i >= 148 && i < 156) continue;
        sum += header[i];
        of_signed += static_cast<std::int8_t>(header[i]);
    }
    const auto stored = static_cast<std::int64_t>(number_of(header.subspan(148, 8), "checksum"));
    if (stored != sum && stored != of_signed)
        throw Flaw(fmt::format("the sum of its tar header is {}: expected {}", sum, stored));
}
[[nodiscard]] inline std::string name_of(Header header) {
    const std::string name(text_of(header.first(100)));
    const bool ustar = text_of(header.subspan(257, 6)) == "ustar";  // GNU's is "ustar "
    const std::string_view prefix = text_of(header.subspan(345, 155));
    return ustar && !prefix.empty() ? std::string(prefix) + "/" + name : name;
}

// ---- Members --------------------------------------------------------------------------------

struct Member {
    std::string name{};
    std::uint64_t begin = 0, bytes = 0;  ///< of its data
    std::string link{};                  ///< of a link: the member that has the data
    bool sparse = false;                 ///< its data lacks the zeros of the file
};

/// What members of kind L and x say of the next one.
struct Overrides {
    std::optional<std::string> name{};
    std::optional<std::uint64_t> bytes{};
    bool sparse = false;
};

/// Lines "length key=value" of pax. Throws Flaw.
inline void read_pax(std::string_view text, Overrides& next) {
    while (!text.empty()) {
        std::size_t length = 0;
        const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), length);
        const auto digits = static_cast<std::size_t>(end - text.data());
        if (trouble != std::errc{} || length > text.size() || length < digits + 3 ||
            text[digits] != ' ' || text[length - 1] != '\n')
            throw Flaw("its pax header is no list of 'length key=value'");
        const std::string_view line = text.substr(digits + 1, length - digits - 2);
        text.remove_prefix(length);
        const std::size_t equals = std::min(line.find('='), line.size());
        const std::string_view key = line.substr(0, equals),
                               value = line.substr(std::min(equals + 1, line.size()));
        if (key.starts_with("GNU.sparse.")) next.sparse = true;
        if ((key == "path" && !next.sparse) || key == "GNU.sparse.name") next.name = value;
        if (key != "size") continue;
        std::uint64_t bytes = 0;
        const auto parsed = std::from_chars(value.data(), value.data() + value.size(), bytes);
        if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size())
            throw Flaw(fmt::format("the size in its pax header is {}", quoted_text(value)));
        next.bytes = bytes;
    }
}

/// A block of zeros ends the archive; what follows are zeros too.
inline void expect_end(const Index& index, std::uint32_t file, Scanner& scanner,
                       std::uint64_t zeros) {
    constexpr std::size_t most = 1 << 16;
    for (std::uint64_t at = zeros + block; at < scanner.bytes(); at += most) {
        const auto rest = scanner.view(at, std::min<std::uint64_t>(most, scanner.bytes() - at));
        const auto found = std::ranges::find_if(rest, [](auto byte) { return byte != 0; });
        if (found == rest.end()) continue;
        index.corrupt(file, zeros,
                      fmt::format("a block of zeros ends the archive, and {} bytes from byte {} on "
                                  "are no zeros: a header has been lost, or archives were put "
                                  "together, which 'tar --concatenate' does right",
                                  scanner.bytes() - at - std::uint64_t(found - rest.begin()),
                                  at + std::uint64_t(found - rest.begin())));
    }
}

/// Where the data of a sparse member begins, whose map goes on behind the header at `at`.
[[nodiscard]] inline std::uint64_t behind_map(Scanner& scanner, std::uint64_t at) {
    constexpr std::size_t in_header = 482, in_map = 504;  // whether another block follows
    bool more = scanner.view(at, block)[in_header] != 0;
    for (at += block; more && at + block <= scanner.bytes(); at += block)
        more = scanner.view(at, block)[in_map] != 0;
    return at;
}

/// Calls f(member, offset of its header) for each regular file and for each link.
/// Errors: CorruptRecord, behind which no member can be found.
template <class F>
void for_each_member(const Index& index, std::uint32_t file, Scanner& scanner, const F& f) {
    Overrides next;
    encoded::expect_uncompressed(scanner.view(0, 10), index.files[file]);
    for (std::uint64_t at = 0;;) {
        const std::uint64_t left = scanner.bytes() - at;
        if (left < block)
            index.corrupt(file, at,
                          fmt::format("the file ends {} bytes behind a member: expected a header, "
                                      "or the end of a tar file, of {} bytes",
                                      left, block));
        const Header header = scanner.view(at, block);
        if (std::ranges::all_of(header, [](auto byte) { return byte == 0; }))
            return expect_end(index, file, scanner, at);
        const auto kind = static_cast<char>(header[156]);
        Member member = index.at(file, at, [&] {
            expect_checksum(header);
            // Links, devices and folders have no data, whatever their size says (POSIX ustar).
            const bool holds_data = kind < '1' || kind > '6';
            const bool described = kind != 'L' && kind != 'K' && kind != 'x' && kind != 'g';
            const Overrides own = described ? std::exchange(next, {}) : Overrides{};
            Member m{own.name ? *own.name : name_of(header), at + block,
                     !holds_data ? 0
                     : own.bytes ? *own.bytes
                                 : number_of(header.subspan(124, 12), "size")};
            if (m.bytes > left - block)
                throw Flaw(
                    fmt::format("{} has {} bytes, and the file ends {} bytes behind its "
                                "header",
                                quoted_text(m.name), m.bytes, left - block));
            if (kind == '1' || kind == '2') m.link = text_of(header.subspan(157, 100));
            m.sparse = kind == 'S' || own.sparse;
            if (kind == 'L' && m.bytes > name_most)
                throw Flaw(
                    fmt::format("a name of {} bytes: expected at most {}", m.bytes, name_most));
            if (kind == 'x' && m.bytes > pax_most)
                throw Flaw(fmt::format("a pax header of {} bytes: expected at most {}", m.bytes,
                                       pax_most));
            return m;
        });
        if (kind == 'S') member.begin = behind_map(scanner, at);
        const auto header_at = at;
        at = std::min(member.begin + (member.bytes + block - 1) / block * block, scanner.bytes());
        const auto data = [&] { return scanner.view(member.begin, member.bytes); };
        if (kind == 'L') next.name = text_of(data());
        if (kind == 'x')
            index.at(file, header_at, [&] {
                const auto bytes = data();
                read_pax({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, next);
            });
        const bool regular = kind == '0' || kind == '\0' || kind == '7' || kind == 'S';
        if ((regular && !member.name.ends_with('/')) || !member.link.empty())
            f(std::move(member), header_at);
    }
}

// ---- Samples --------------------------------------------------------------------------------

/// Members of one key.
struct Group {
    std::string key{};
    std::uint64_t begin = 0;  ///< of the first header
    int images = 0, labels = 0;
    Member image{}, label{}, link{}, sparse{};
    bool is_of_links = true;  ///< and of nothing else
};

class Indexing {
public:
    Indexing(Index& index, std::uint32_t file, Scanner& scanner, const WebDatasetOptions& options)
        : index_(index), file_(file), scanner_(scanner), options_(options) {}

    void run() {
        try {
            for_each_member(index_, file_, scanner_,
                            [&](Member m, std::uint64_t at) { add(std::move(m), at); });
        } catch (const CorruptRecord&) {
            finish_groups();
            throw;
        }
        finish_groups();
    }

private:
    void add(Member member, std::uint64_t at) {
        const std::string& name = member.name;
        const std::size_t slash = name.rfind('/'), base = slash == name.npos ? 0 : slash + 1;
        const std::size_t dot = name.find('.', base);
        if (dot == name.npos || dot == base || (name.starts_with("__") && name.ends_with("__")))
            return;
        std::string ending = name.substr(dot + 1);
        for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        const bool is_label = ending == options_.label_ending, is_link = !member.link.empty();
        const bool is_image = !is_label && std::ranges::find(options_.image_endings, ending) !=
                                               options_.image_endings.end();
        if (is_link && !is_label && !is_image) return;
        Group& group = group_of(std::string_view(name.data(), dot), at, is_link);
        group.is_of_links &= is_link;
        if (is_link) group.link = member;
        if (member.sparse && (is_label || is_image)) group.sparse = member;
        if (is_label) {
            ++group.labels;
            group.label = std::move(member);
        } else if (is_image) {
            ++group.images;
            group.image = std::move(member);
        }
    }
    /// The group of a member, after those that it ends.
    [[nodiscard]] Group& group_of(std::string_view key, std::uint64_t at, bool is_link) {
        if (key == group_.key) return group_;
        if (is_link && !group_.is_of_links) {
            if (key == links_.key) return links_;
            finish(links_);
            return links_ = {.key = std::string(key), .begin = at};
        }
        finish(group_);
        group_ = std::exchange(links_, {});
        if (key == group_.key) return group_;
        finish(group_);
        return group_ = {.key = std::string(key), .begin = at};
    }
    void finish_groups() {
        finish(group_);
        finish(links_);
    }
    void finish(Group& group) {
        const bool stray = group.is_of_links && (group.images == 0 || group.labels == 0);
        if (group.key.empty() || stray) {
            group = {};
            return;
        }
        try {
            index_.at(file_, group.begin, [&] { add_sample(group); });
        } catch (const CorruptRecord& e) {
            index_.skip(e);
        }
        group = {};
    }
    void add_sample(const Group& group) {
        const auto& [key, begin, images, labels, image, label, link, sparse, is_of_links] = group;
        if (!link.name.empty())
            throw Flaw(
                fmt::format("{} is a link to {}: pack what it stands for, by 'tar "
                            "--dereference --hard-dereference'",
                            quoted_text(link.name), quoted_text(link.link)));
        if (!sparse.name.empty())
            throw Flaw(
                fmt::format("{} is a sparse file: expected whole ones, as tar packs without "
                            "'--sparse'",
                            quoted_text(sparse.name)));
        if (images != 1 || labels != 1)
            throw Flaw(
                fmt::format("sample {} has {} images and {} labels: expected one member "
                            "of each, such as {} and {}, side by side",
                            quoted_text(key), images, labels,
                            quoted_text(key + "." + options_.image_endings.at(0)),
                            quoted_text(key + "." + options_.label_ending)));
        if (image.bytes == 0) throw Flaw(fmt::format("{} is empty", quoted_text(image.name)));
        if (image.bytes > UINT32_MAX)
            throw Flaw(fmt::format("{} is longer than 4 GiB", quoted_text(image.name)));
        const double number = label_of(label);
        if (!keys_.insert(key).second)
            throw Flaw(
                fmt::format("key {} has come before in this file: expected each once, "
                            "its members side by side",
                            quoted_text(key)));
        index_.add({image.begin, static_cast<std::uint32_t>(image.bytes), file_, 0, 0}, number,
                   key);
    }
    [[nodiscard]] double label_of(const Member& m) const {
        const auto bytes = scanner_.view(m.begin, std::min<std::size_t>(m.bytes, 64));
        std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != text.npos)
            text.remove_suffix(1);
        std::int64_t label = 0;
        const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), label);
        if (trouble != std::errc{} || end != text.data() + text.size() || m.bytes > 64)
            throw Flaw(fmt::format("{} holds {}: expected a whole number", quoted_text(m.name),
                                   quoted_text(text)));
        return static_cast<double>(label);
    }

    Index& index_;
    std::uint32_t file_;
    Scanner& scanner_;
    const WebDatasetOptions& options_;
    Group group_{};
    Group links_{};  // within or behind the members of group_, which a link does not end
    std::unordered_set<std::string> keys_{};
};

}  // namespace detail::web_dataset

GX_DECL WebDataset::WebDataset(std::span<const std::filesystem::path> shards,
                               const WebDatasetOptions& options)
    : EncodedFiles(detail::encoded::index_of(
          shards, options, {}, [&](auto& index, std::uint32_t file, auto& scanner) {
              detail::web_dataset::Indexing(index, file, scanner, options).run();
          })) {}

}  // namespace gx
