// Pack images into RecordIO or TFRecord shards; check and list sources of encoded images.
// Run:  build/release/gx_records --pack imagenet/train --output shards/train --shards 64 --seed 1
//       build/release/gx_records --verify shards/train-*.rec
//       build/release/gx_records --list shards/train-00000-of-00064.rec
// Exit: 0 all right; 1 corrupt records were found, or shards are missing; 2 for a command line or a
//       file that cannot be used

#include <map>      // folders, bytes of shards
#include <numeric>  // iota
#include <set>      // what is read
#include <vector>   // shards

#include <fmt/format.h>  // lines

#include <gx/core/rng.hpp>                     // Rng
#include <gx/image/codec/crop_decoder.hpp>     // CropDecoder
#include <gx/io/json_text.hpp>                 // JsonWriter
#include <gx/loader/formats/open_encoded.hpp>  // open_encoded
#include <gx/loader/formats/record_io.hpp>     // RecordIoWriter
#include <gx/loader/formats/tf_record.hpp>     // TfRecordWriter

#include "../../sims/support/command_line.hpp"  // run_program

namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

struct Arguments {
    Paths pack{}, verify{}, list{};
    fs::path output{}, json{};
    std::string from{}, to = "recordio";
    int shards = 1, first_label = 0;
    std::uint64_t seed = 0;
    bool shuffled = false, skips = false, decodes = false;
};

gx::EncodedFiles opened(const Paths& paths, const Arguments& a, gx::OnCorrupt on_corrupt) {
    std::optional<gx::EncodedFormat> format;
    if (!a.from.empty()) format = gx::encoded_format(a.from);
    return gx::open_encoded(paths, {.first_label = a.first_label, .on_corrupt = on_corrupt},
                            format);
}

/// A sentence of the library, with this program's options in place of the library's.
std::string with_options(const std::string& sentence, const Arguments& a) {
    return gx::detail::encoded::with_skip_option(
        sentence, a.verify.empty() ? "with --skip-corrupt"
                                   : "by packing the rest with --pack and --skip-corrupt");
}

/// Prints and counts what was skipped.
std::int64_t print_skipped(const gx::SkippedRecords& some, const Arguments& a) {
    for (std::string_view sentence : some.first) {
        if (sentence.starts_with("gx: ")) sentence.remove_prefix(4);
        gx::print_error("gx_records: {}\n", gx::printable(with_options(std::string(sentence), a)));
    }
    if (const auto more = some.count - std::ssize(some.first); more > 0)
        gx::print_error("gx_records: and {} more\n", more);
    return some.count;
}
/// Samples that are read and, with --decode, decoded whole, as training does.
class Images {
public:
    Images(const gx::EncodedFiles& source, const Arguments& a, bool skips)
        : source_(source), a_(a), skips_(skips) {}

    /// One without bytes is corrupt; those that can't be decoded are printed.
    /// Errors: gx::Error for such a one, unless they are skipped.
    gx::EncodedSample read(std::uint32_t index) {
        gx::EncodedSample sample;
        reader_->read({&index, 1}, {&sample, 1});
        if (!a_.decodes || sample.bytes.empty()) return sample;
        try {
            const gx::ImageSize size = decoder_.open(sample.bytes, to_string(sample.where));
            pixels_.resize(3 * static_cast<std::size_t>(size.pixels()));
            decoder_.decode({.width = size.width, .height = size.height}, pixels_.data());
        } catch (const gx::Error& e) {
            latest_ = e.what();
            if (!skips_)
                throw gx::Error(latest_ + ", or leave corrupt images out with --skip-corrupt.");
            gx::print_error("gx_records: {}\n", gx::printable(latest_));
            ++undecoded_;
            sample.bytes = {};
        }
        return sample;
    }
    /// Of those that were read.
    [[nodiscard]] std::int64_t corrupt() const { return reader_->skipped().count + undecoded_; }
    [[nodiscard]] const std::string& latest() const {
        return latest_.empty() ? reader_->skipped().latest : latest_;
    }
    /// Prints and counts what was skipped while the index was made, and then while it was read.
    std::int64_t print_skipped() const {
        const std::int64_t of_index = ::print_skipped(source_.skipped(), a_);
        return of_index + ::print_skipped(reader_->skipped(), a_) + undecoded_;
    }

private:
    const gx::EncodedFiles& source_;
    const Arguments& a_;
    bool skips_;
    std::unique_ptr<gx::EncodedReader> reader_ = source_.open();
    gx::CropDecoder decoder_{};
    std::vector<std::uint8_t> pixels_{};
    std::string latest_{};  // that can't be decoded
    std::int64_t undecoded_ = 0;
};

void write_json(const Arguments& a, std::int64_t samples, int classes, std::int64_t corrupt,
                const Paths& files) {
    if (a.json.empty()) return;
    gx::JsonWriter w;
    w.open('{').field("command", "records").field("samples", samples);
    w.field("classes", classes).field("corrupt", corrupt).name("files").open('[');
    for (const fs::path& file : files) w.value(file.string());
    gx::write_file(a.json, w.close(']').close('}').text() + "\n");
}

// ---- Packing --------------------------------------------------------------------------------

/// "train.rec", or "train-00003-of-00064.rec".
fs::path shard_path(const Arguments& a, int shard) {
    const std::string part = a.shards == 1 ? "" : fmt::format("-{:05}-of-{:05}", shard, a.shards);
    return a.output.string() + part + (a.to == "recordio" ? ".rec" : ".tfrecord");
}

/// All that pack() writes, but for --json.
Paths outputs(const Arguments& a) {
    Paths files{fs::path(a.output.string() + ".classes.txt")};
    for (int s = 0; s < a.shards; ++s) {
        files.push_back(shard_path(a, s));
        if (a.to != "recordio") continue;
        for (const char* ending : {".idx", ".lst"})
            files.push_back(fs::path(files.back()).replace_extension(ending));
    }
    return files;
}
/// Replaces the list of classes, which the source may have read, and removes older shards: --verify
/// would take them and new ones for one whole set. A single shard is replaced at once, with its
/// lists.
void replace_older(const Arguments& a, const std::vector<std::string>& classes) {
    const Paths files = outputs(a);
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (i == 0 ? !classes.empty() : a.shards == 1) continue;
        if (std::error_code hidden; fs::is_regular_file(files[i], hidden))
            fs::remove(fs::canonical(files[i]));  // a link stays
    }
    std::string lines;
    for (const std::string& name : classes) lines += name + "\n";
    if (!classes.empty()) gx::write_file(files[0], lines);
}
void expect_names(const Arguments& a) {
    if (!a.output.has_filename())
        throw gx::Error(
            fmt::format("--output '{0}': expected the beginning of the shards' names, "
                        "such as '{0}train'",
                        a.output.string()));
}
void expect_lines(const std::vector<std::string>& classes) {
    for (const std::string& name : classes)
        if (name.find_first_of("\r\n") != name.npos)
            throw gx::Error(
                fmt::format("class '{}' has a line's end in its name, and so would the "
                            "list of classes. Rename it.",
                            gx::printable(name)));
}

/// Writes samples order[first ... last - 1].
template <class Writer>
void write_shard(const Arguments& a, int shard, Writer writer, const gx::EncodedFiles& source,
                 Images& images, std::span<const std::uint32_t> order) {
    const auto& names = source.info().class_names;
    bool empty = true;
    for (const std::uint32_t index : order) {
        const gx::EncodedSample sample = images.read(index);
        if (sample.bytes.empty()) continue;
        const gx::EncodedEntry entry = source.entry(index);
        const bool is_file = entry.bytes == 0;  // named from its class's folder on
        writer->add(sample.bytes, sample.label + a.first_label,
                    is_file ? names[std::size_t(sample.label)] + "/" + entry.name : entry.name);
        empty = false;
    }
    if (empty)  // no reader takes such a file
        throw gx::Error(
            fmt::format("'{}' would be empty: none of its {} samples can be read; ask for fewer "
                        "shards, or mend the samples. One of them: {}",
                        shard_path(a, shard).string(), order.size(), images.latest()));
    if (shard == 0) replace_older(a, names);
    writer->commit();
}

int pack(const Arguments& a) {
    expect_names(a);
    const gx::EncodedFiles source =
        opened(a.pack, a, a.skips ? gx::OnCorrupt::skip : gx::OnCorrupt::stop);
    const gx::EncodedInfo info = source.info();
    expect_lines(info.class_names);
    if (a.shards > info.count)
        throw gx::Error(
            fmt::format("--shards {}: there are {} samples, and each shard needs one. "
                        "Ask for fewer shards.",
                        a.shards, info.count));
    std::vector<std::uint32_t> order(std::size_t(info.count));
    std::iota(order.begin(), order.end(), 0u);
    if (a.shuffled) gx::Rng(a.seed, "records.order").permutation_into(order);
    Images images(source, a, a.skips);
    Paths files;
    for (int s = 0; s < a.shards; ++s) {
        const auto at = [&](int shard) { return std::size_t(info.count * shard / a.shards); };
        const auto share = std::span(order).subspan(at(s), at(s + 1) - at(s));
        files.push_back(shard_path(a, s));
        if (a.to == "recordio")
            write_shard(a, s, std::make_unique<gx::RecordIoWriter>(files.back(), at(s)), source,
                        images, share);
        else
            write_shard(a, s, std::make_unique<gx::TfRecordWriter>(files.back()), source, images,
                        share);
    }
    if (!info.class_names.empty()) files.push_back(outputs(a).front());
    const std::int64_t skipped = images.print_skipped();
    const std::int64_t packed = info.count - images.corrupt();
    fmt::print("{} images of {} classes in {} shards, {} to {}; {} left out\n", packed,
               info.classes, a.shards, files.front().string(), shard_path(a, a.shards - 1).string(),
               skipped);
    write_json(a, packed, info.classes, skipped, files);
    return 0;
}

/// Nothing that is read is written, and nothing is written twice.
void expect_other_files(const Arguments& a) {
    std::set<fs::path> taken;
    std::map<fs::path, fs::path> folders;  // many shards are of one
    const auto resolved = [&](const fs::path& path) {
        if (fs::exists(fs::symlink_status(path))) return fs::weakly_canonical(path);
        const auto [at, is_new] = folders.try_emplace(path.parent_path());
        if (is_new) at->second = fs::weakly_canonical(fs::absolute(path).parent_path());
        return at->second / path.filename();
    };
    for (const Paths* some : {&a.pack, &a.verify, &a.list})
        for (const fs::path& path : *some) taken.insert(resolved(path));
    const auto expect_other = [&](const char* option, const fs::path& named, const fs::path& path) {
        if (!taken.insert(resolved(path)).second)
            throw gx::Error(
                fmt::format("{} '{}': '{}' is read or written besides, and would be "
                            "overwritten. Choose other names.",
                            option, named.string(), path.string()));
    };
    if (!a.pack.empty())
        for (const fs::path& path : outputs(a)) expect_other("--output", a.output, path);
    if (!a.json.empty()) expect_other("--json", a.json, a.json);
}

// ---- Checking and listing -------------------------------------------------------------------

/// What the name of a shard says of all of them, as train-00003-of-00064.rec does.
struct ShardSet {
    std::string before, after;  ///< the number
    std::size_t digits = 0;
    int count = 0;
    auto operator<=>(const ShardSet&) const = default;

    [[nodiscard]] fs::path shard(int s) const {
        return fmt::format("{}{:0{}}{}", before, s, digits, after);
    }
};
std::optional<ShardSet> shard_set(const fs::path& path) {
    constexpr std::string_view of = "-of-", numerals = "0123456789";
    const std::string name = path.filename().string();
    const auto between = name.rfind(of);
    if (between == name.npos) return std::nullopt;
    const auto last = name.find_last_not_of(numerals, between - 1);
    const auto first = last == name.npos ? 0 : last + 1, count = between + of.size();
    const auto end = std::min(name.find_first_not_of(numerals, count), name.size());
    const auto digits = between - first;
    if (digits == 0 || digits > 5 || end == count || end - count > 5) return std::nullopt;
    return ShardSet{(path.parent_path() / name.substr(0, first)).string(), name.substr(between),
                    digits, std::stoi(name.substr(count, end - count))};
}

/// Prints shards of which others were read, and which are not there or were not named; returns how
/// many are not there.
std::int64_t missing_shards(const Paths& read) {
    std::set<fs::path> named;
    std::set<ShardSet> sets;
    for (const fs::path& path : read) {
        const fs::path file = fs::canonical(path);  // however it was spelt
        named.insert(file);
        if (const auto set = shard_set(file)) sets.insert(*set);
    }
    std::int64_t missing = 0;
    for (const ShardSet& set : sets) {  // numbered from 0, or from 1
        Paths absent, unnamed;
        const int begin = !fs::exists(set.shard(0)) && fs::exists(set.shard(set.count)) ? 1 : 0;
        for (int s = begin; s < begin + set.count; ++s)
            if (const fs::path path = set.shard(s); !named.contains(path))
                (fs::exists(path) ? unnamed : absent).push_back(path);
        const auto print = [&](const Paths& some, const char* are) {
            if (some.empty()) return;
            gx::print_error("gx_records: {} of {} shards {}, '{}' first\n", some.size(), set.count,
                            are, gx::printable(some[0].string()));
        };
        print(absent, "are not there");
        print(unnamed, "were not read, as they were not named");
        if (const fs::path more = set.shard(begin + set.count); fs::exists(more))
            gx::print_error("gx_records: '{}' is there, although the names promise {} shards\n",
                            gx::printable(more.string()), set.count);
        missing += std::ssize(absent);
    }
    return missing;
}

/// Indexes that list another number of bytes than their shard has: cut ones, or another shard's.
std::int64_t wrong_indexes(const gx::EncodedFiles& source, const Paths& shards) {
    std::map<std::string, std::uint64_t> listed;  // bytes, by shard
    for (std::uint32_t i = 0; i < source.info().count; ++i) {
        const gx::EncodedEntry e = source.entry(i);
        listed[e.file] += (e.bytes + 3) / 4 * 4;  // records begin at multiples of 4
    }
    std::int64_t wrong = 0;
    for (const fs::path& shard : shards) {  // one may have no sample
        const fs::path index = fs::path(shard).replace_extension(".idx");
        const std::uint64_t bytes = listed[shard.string()];
        if (shard.extension() != ".rec" || !fs::exists(index) || fs::file_size(shard) == bytes)
            continue;
        gx::print_error(
            "gx_records: '{}' lists {} of the {} bytes of '{}': it is cut, or another shard's. "
            "Remove it, and the records are found without it\n",
            gx::printable(index.string()), bytes, fs::file_size(shard),
            gx::printable(shard.string()));
        ++wrong;
    }
    return wrong;
}

int verify(const Arguments& a) {
    const gx::EncodedFiles source = opened(a.verify, a, gx::OnCorrupt::skip);
    Images images(source, a, true);
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < source.info().count; ++i) bytes += images.read(i).bytes.size();
    const std::int64_t corrupt = images.print_skipped();
    const std::int64_t whole = source.info().count - images.corrupt();
    fmt::print("{} images of {} classes, {} bytes; corrupt records: {}\n", whole,
               source.info().classes, bytes, corrupt);
    write_json(a, whole, source.info().classes, corrupt, a.verify);
    const bool is_indexed = corrupt > 0 || wrong_indexes(source, a.verify) == 0;
    return missing_shards(a.verify) > 0 || corrupt > 0 || !is_indexed ? 1 : 0;
}

/// Of an image folder's file, all of them.
std::uintmax_t bytes_of(const gx::EncodedEntry& e) {
    if (e.bytes > 0) return e.bytes;
    std::error_code gone;
    const auto bytes = std::filesystem::file_size(std::filesystem::path(e.file) / e.name, gone);
    return gone ? 0 : bytes;
}

int list(const Arguments& a) {
    const gx::EncodedFiles source =
        opened(a.list, a, a.skips ? gx::OnCorrupt::skip : gx::OnCorrupt::stop);
    for (std::uint32_t i = 0; i < source.info().count; ++i) {
        const gx::EncodedEntry e = source.entry(i);
        fmt::print("{}\t{}\t{}\t{}\t{}\t{}\n", i, e.label, e.offset, bytes_of(e),
                   gx::printable(e.file), gx::printable(e.name));
    }
    write_json(a, source.info().count, source.info().classes, print_skipped(source.skipped(), a),
               a.list);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments a;
    CLI::App app{"Packs images into record files; checks and lists sources of encoded images.",
                 "gx_records"};
    auto* what = app.add_option_group("what");
    auto* packs = what->add_option("--pack", a.pack, "pack a folder of class folders, or shards");
    auto* verifies =
        what->add_option("--verify", a.verify,
                         "read every record of a source; exit 1 if any is corrupt, or a shard of "
                         "those that the names promise (-of-00064) missing. Images are not "
                         "decoded without --decode, and of the formats TFRecord alone has sums "
                         "of them");
    auto* lists = what->add_option(
        "--list", a.list, "print number, label, offset, bytes, file and name of each sample");
    what->require_option(1);
    auto* output = app.add_option("--output", a.output,
                                  "beginning of the shards' names, such as shards/train");
    packs->needs(output);
    output->needs(packs);
    app.add_option("--to", a.to, "format of the shards: recordio or tfrecord (recordio)")
        ->needs(packs);
    app.add_option("--shards", a.shards, "number of shards (1)")
        ->check(gx::count_in(1, 99'999))
        ->needs(packs);
    auto* seed =
        app.add_option("--seed", a.seed, "shuffle by this seed; else in the source's order");
    seed->needs(packs);
    app.add_flag("--skip-corrupt", a.skips,
                 "leave corrupt records and empty images out; with --decode, corrupt images too")
        ->excludes(verifies);
    app.add_flag("--decode", a.decodes,
                 "decode each image whole, on one core: those that can't be are corrupt")
        ->excludes(lists);
    app.add_option("--from", a.from,
                   "format of the source: folder, recordio, tfrecord or webdataset (by its names)");
    app.add_option("--first-label", a.first_label,
                   "stored label of the first class: 1 in ImageNet's TFRecords (0)")
        ->check(gx::count_in(-1'000'000, 1'000'000));
    app.add_option("--json", a.json, "write the counts to a file");
    return gx::run_program(app, argc, argv, [&] {
        a.shuffled = seed->count() > 0;
        if (a.to != "recordio" && a.to != "tfrecord")
            throw gx::Error(fmt::format("--to '{}': expected recordio or tfrecord", a.to));
        gx::expect_outputs({{"--json", a.json}});
        expect_other_files(a);
        try {
            return !a.pack.empty() ? pack(a) : !a.verify.empty() ? verify(a) : list(a);
        } catch (const gx::Error& e) {
            throw gx::Error(with_options(e.what(), a));
        }
    });
}
