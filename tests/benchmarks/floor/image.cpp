// The floor of decoding a crop of a JPEG to 224 x 224: libjpeg-turbo and one loop, nothing of gx.
// Run:     gx_floor_image FILE CROPS [PIXELS], CROPS of lines "LEFT TOP WIDTH HEIGHT MIRRORED"
// Reads a word for each round, and writes the processor seconds of that round; before the first,
// writes all crops to PIXELS, so that others can be compared with them.
//
// libjpeg-turbo decodes the columns of the crop and those that upsampling reads beside them, runs
// entropy decoding alone above it, and is stopped below it. Its memory is one block, its rows are
// in the cache when they are read. Each output row is blended from two of them, then its pixels
// from pairs of columns, by AVX2: with AVX-512 libjpeg-turbo's own AVX2 code became slower by more
// than these loops had gained. What is left out: all that is no baseline JPEG of three components,
// checks for damage beyond libjpeg's, EXIF, scaled decoding (of this file no crop has twice the
// output's pixels), and any other size of output.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <jpeglib.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

constexpr int side = 224, group = 4;  // pixels that are blended together
constexpr int ring = 8, at_once = 4;  // decoded rows
constexpr std::size_t behind = 128;   // bytes that loops may touch behind an array
using Byte = std::uint8_t;

struct Crop {
    int left, top, width, height, mirrored;
};

/// Output pixel x lies between the pixels at words `first[x]` and 3 further on of a blended row, by
/// `weight[x]` / 2^14 of the way. `pairs`: both weights of a pixel, four times; pixels 0, 2, 1 and
/// 3 of each group, as the halves of registers have them.
struct Columns {
    std::array<int, side> first{};
    std::array<std::int16_t, side> weight{};
    alignas(32) std::array<std::array<std::int16_t, 8>, side> pairs{};
};
struct Rows {
    std::array<int, side> first{};
    std::array<std::int16_t, side> weight{};  // 2^15 times the way on
};

/// Where output i of 224 lies among `count` inputs: the one before it, and `one` times the way on.
void locate(int i, int count, int one, int& first, std::int16_t& weight) {
    const float last = static_cast<float>(count - 1);
    const float at = (static_cast<float>(i) + 0.5f) * static_cast<float>(count) / side - 0.5f;
    const float inside = std::min(std::max(at, 0.0f), last);
    first = static_cast<int>(inside);
    const float way = (inside - static_cast<float>(first)) * static_cast<float>(one) + 0.5f;
    weight = static_cast<std::int16_t>(std::min(way, 32767.0f));
}

void locate_columns(const Crop& crop, Columns& columns) {
    constexpr int one = 1 << 14;
    for (int x = 0; x < side; ++x) {
        const auto at = static_cast<std::size_t>(x);
        std::int16_t& weight = columns.weight[at];
        locate(crop.mirrored ? side - 1 - x : x, crop.width, one, columns.first[at], weight);
        columns.first[at] *= 3;
        constexpr std::size_t place[group] = {0, 2, 1, 3};
        auto& pairs = columns.pairs[at / group * group + place[at % group]];
        for (std::size_t i = 0; i < 8; i += 2) {
            pairs[i] = static_cast<std::int16_t>(one - weight);
            pairs[i + 1] = weight;
        }
    }
}

/// 2^7 (a + weight / 2^15 (b - a)) of `count` bytes and up to 15 behind them.
void blend_rows(const Byte* a, const Byte* b, std::int16_t weight, std::int16_t* to, int count) {
#if defined(__AVX2__)
    const __m256i weights = _mm256_set1_epi16(weight);
    for (int i = 0; i < count; i += 16) {
        const __m256i x = _mm256_slli_epi16(
            _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i))), 7);
        const __m256i y = _mm256_slli_epi16(
            _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i))), 7);
        const __m256i step = _mm256_mulhrs_epi16(_mm256_sub_epi16(y, x), weights);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_add_epi16(x, step));
    }
#else
    for (int i = 0; i < count; ++i)
        to[i] = static_cast<std::int16_t>((a[i] << 7) +
                                          (((b[i] - a[i]) * 128 * weight + (1 << 14)) >> 15));
#endif
}

/// An output row and 2 bytes behind it, from a blended row and 2 words behind its last pixel's
/// neighbour.
void blend_columns(const std::int16_t* row, const Columns& columns, Byte* to) {
    constexpr int half = 1 << 20, bits = 21;
#if defined(__AVX2__)
    // Channels of a pixel beside those of its right neighbour; three bytes of four.
    const __m256i beside = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1));
    const __m256i three = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const auto load = [&](std::size_t x) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + columns.first[x]));
    };
    const auto blend = [&](std::size_t x, std::size_t y, std::size_t place) {
        const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(load(x)), load(y), 1);
        const __m256i sums = _mm256_madd_epi16(
            _mm256_shuffle_epi8(both, beside),
            _mm256_load_si256(reinterpret_cast<const __m256i*>(columns.pairs[place].data())));
        return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(half)), bits);
    };
    for (std::size_t x = 0; x < side; x += group, to += 3 * group) {
        const __m256i words = _mm256_packs_epi32(blend(x, x + 2, x), blend(x + 1, x + 3, x + 2));
        const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words), three);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 6), _mm256_extracti128_si256(bytes, 1));
    }
#else
    for (std::size_t x = 0; x < side; ++x) {
        const std::int16_t* from = row + columns.first[x];
        const int right = columns.weight[x], left = (1 << 14) - right;
        for (std::size_t c = 0; c < 3; ++c)
            to[3 * x + c] =
                static_cast<Byte>((from[c] * left + from[c + 3] * right + half) >> bits);
    }
#endif
}

/// The next place that is no multiple of 16: libjpeg-turbo writes aligned rows past the caches.
Byte* unaligned(Byte* at) { return at + (64 - reinterpret_cast<std::uintptr_t>(at) % 64) + 8; }

/// What libjpeg asks for while it decodes an image, from one block that serves each image: rows of
/// samples on cache lines of their own, nothing to find or to give back.
struct Block {
    alignas(64) std::array<Byte, std::size_t{4} << 20> bytes{};
    std::size_t used = 0;
    void (*free_pool)(j_common_ptr, int) = nullptr;  // of libjpeg
    void* (*alloc_small)(j_common_ptr, int, std::size_t) = nullptr;
};
Block block;

void* allocate(j_common_ptr info, int pool, std::size_t bytes) {
    if (pool != JPOOL_IMAGE) return block.alloc_small(info, pool, bytes);
    void* const at = block.bytes.data() + block.used;
    block.used += (bytes + 63) / 64 * 64;
    if (block.used > block.bytes.size()) std::abort();
    return at;
}
JSAMPARRAY allocate_rows(j_common_ptr info, int pool, JDIMENSION samples, JDIMENSION count) {
    const std::size_t stride = (std::size_t{samples} + 63) / 64 * 64;
    auto* const rows = static_cast<JSAMPARRAY>(allocate(info, pool, count * sizeof(JSAMPROW)));
    auto* const memory = static_cast<Byte*>(allocate(info, pool, count * stride));
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = memory + i * stride;
    return rows;
}
void use_block(j_common_ptr info) {
    block.free_pool = info->mem->free_pool;
    block.alloc_small = info->mem->alloc_small;
    info->mem->alloc_small = allocate;
    info->mem->alloc_large = allocate;
    info->mem->alloc_sarray = allocate_rows;
    info->mem->free_pool = [](j_common_ptr of, int pool) {
        block.free_pool(of, pool);
        if (pool == JPOOL_IMAGE) block.used = 0;
    };
}

class Floor {
public:
    explicit Floor(const std::vector<Byte>& file) : file_(file) {
        info_.err = jpeg_std_error(&errors_);
        jpeg_create_decompress(&info_);
        use_block(reinterpret_cast<j_common_ptr>(&info_));
    }
    Floor(const Floor&) = delete;
    Floor& operator=(const Floor&) = delete;
    ~Floor() { jpeg_destroy_decompress(&info_); }

    /// Shapes: out (224, 224, 3), and 2 bytes.
    void show(const Crop& crop, Byte* out) {
        locate_columns(crop, columns_);
        for (int y = 0; y < side; ++y)
            locate(y, crop.height, 1 << 15, rows_.first[std::size_t(y)],
                   rows_.weight[std::size_t(y)]);
        begin(crop);
        const std::size_t stride = (std::size_t{3} * info_.output_width + behind) / 64 * 64;
        pixels_.resize(stride * ring + 2 * behind);
        Byte* const start = unaligned(pixels_.data());
        blended_.resize(std::size_t(3 * crop.width) + behind);
        const auto row = [&](int y) { return start + stride * static_cast<std::size_t>(y % ring); };
        int decoded = 0;
        for (int y = 0; y < side; ++y, out += 3 * side) {
            const int first = rows_.first[std::size_t(y)];
            const int second = std::min(first + 1, crop.height - 1);
            while (decoded <= second) {
                JSAMPROW rows[at_once];
                const int wanted = std::min(at_once, crop.height - decoded);
                for (int i = 0; i < wanted; ++i) rows[i] = row(decoded + i);
                decoded += int(jpeg_read_scanlines(&info_, rows, JDIMENSION(wanted)));
            }
            blend_rows(row(first) + offset_, row(second) + offset_, rows_.weight[std::size_t(y)],
                       blended_.data(), 3 * crop.width);
            // Behind the last column lies itself.
            std::copy_n(&blended_[std::size_t(3 * crop.width - 3)], 3,
                        &blended_[std::size_t(3 * crop.width)]);
            blend_columns(blended_.data(), columns_, out);
        }
        jpeg_abort_decompress(&info_);
    }

private:
    /// To the first row of `crop`.
    void begin(const Crop& crop) {
        jpeg_mem_src(&info_, file_.data(), static_cast<unsigned long>(file_.size()));
        jpeg_read_header(&info_, TRUE);
        jpeg_start_decompress(&info_);
        const int beside = 2 * info_.max_h_samp_factor;  // that upsampling reads, and a border
        const int from = std::max(crop.left - beside, 0);
        const int to = std::min(crop.left + crop.width + beside, int(info_.output_width));
        auto left = JDIMENSION(from), width = JDIMENSION(to - from);
        if (width < info_.output_width) jpeg_crop_scanline(&info_, &left, &width);
        if (crop.top > 0) jpeg_skip_scanlines(&info_, JDIMENSION(crop.top));
        offset_ = 3 * (std::size_t(crop.left) - left);
    }

    const std::vector<Byte>& file_;
    jpeg_decompress_struct info_{};
    jpeg_error_mgr errors_{};
    Columns columns_{};
    Rows rows_{};
    std::vector<Byte> pixels_{};
    std::vector<std::int16_t> blended_{};
    std::size_t offset_ = 0;
};

double processor_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

}  // namespace

int main(int count, char** words) {
    if (count != 3 && count != 4) return 2;
    std::ifstream in(words[1], std::ios::binary);
    const std::vector<Byte> file((std::istreambuf_iterator<char>(in)), {});
    std::vector<Crop> crops;
    std::ifstream list(words[2]);
    for (Crop c{}; list >> c.left >> c.top >> c.width >> c.height >> c.mirrored;)
        crops.push_back(c);
    constexpr std::size_t bytes = std::size_t{3} * side * side;
    std::vector<Byte> out(bytes + behind);
    Floor floor(file);
    if (count == 4) {
        std::ofstream pixels(words[3], std::ios::binary);
        for (const Crop& c : crops) {
            floor.show(c, out.data());
            pixels.write(reinterpret_cast<const char*>(out.data()), bytes);
        }
    }
    for (std::string word; std::cin >> word;) {
        const double begin = processor_seconds();
        for (const Crop& c : crops) floor.show(c, out.data());
        std::printf("%.9f\n", processor_seconds() - begin);
        std::fflush(stdout);
    }
}
