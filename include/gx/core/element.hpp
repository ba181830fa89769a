// fp32, fp16, bf16: element types, formats of numbers in memory or on the wire.
#pragma once

#include <bit>          // bit_cast
#include <concepts>     // same_as
#include <cstdint>      // uint16_t
#include <string_view>  // name

namespace gx {

/// An element stores a number in `storage`; `encode` rounds a float to nearest, ties to even,
/// with subnormals, infinities and NaN as hardware has them; `decode` is exact.
struct fp32 {
    using storage = float;
    static constexpr std::string_view name = "fp32";
    [[nodiscard]] static constexpr storage encode(float x) { return x; }
    [[nodiscard]] static constexpr float decode(storage x) { return x; }
};

/// IEEE 754 binary16: 11 bits of significand, largest finite value 65504.
struct fp16 {
    using storage = std::uint16_t;
    static constexpr std::string_view name = "fp16";
    [[nodiscard]] static constexpr storage encode(float x);
    [[nodiscard]] static constexpr float decode(storage bits);
};

/// bfloat16: the upper half of a float, 8 bits of significand, the exponents of a float.
struct bf16 {
    using storage = std::uint16_t;
    static constexpr std::string_view name = "bf16";
    [[nodiscard]] static constexpr storage encode(float x);
    [[nodiscard]] static constexpr float decode(storage bits);
};

/// How tensor cores read fp32 (Ampere and later): with 11 bits of significand and all exponents.
/// Numbers stay fp32 in memory, so it is no Element.
struct tf32 {
    static constexpr std::string_view name = "tf32";
    /// To nearest, ties away from 0, as PTX's cvt.rna.tf32.f32; infinities and NaN stay.
    [[nodiscard]] static constexpr float round(float x) {
        const auto bits = std::bit_cast<std::uint32_t>(x);
        if ((bits & 0x7f800000u) == 0x7f800000u) return x;
        return std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
    }
};

template <class E>
concept Element = requires(float x, typename E::storage s) {
    { E::encode(x) } -> std::same_as<typename E::storage>;
    { E::decode(s) } -> std::same_as<float>;
    { E::name } -> std::convertible_to<std::string_view>;
};

/// The elements above as values, for what is chosen while a program runs.
enum class ElementType : unsigned char { fp32, fp16, bf16 };

/// An element that has a value of ElementType.
template <class E>
concept StandardElement = std::same_as<E, fp32> || std::same_as<E, fp16> || std::same_as<E, bf16>;

template <StandardElement E>
inline constexpr ElementType element_type = std::same_as<E, fp32>   ? ElementType::fp32
                                            : std::same_as<E, fp16> ? ElementType::fp16
                                                                    : ElementType::bf16;

[[nodiscard]] constexpr std::string_view to_string(ElementType t) {
    return t == ElementType::fp32 ? fp32::name : t == ElementType::fp16 ? fp16::name : bf16::name;
}

constexpr fp16::storage fp16::encode(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)  // NaN: quiet, keep the payload's upper bits, as VCVTPS2PH does
        return static_cast<storage>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return static_cast<storage>(sign | 0x7c00u);  // 65520 and up
    if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 makes the FPU round at 2^-24
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<storage>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<storage>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

constexpr float fp16::decode(storage bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {  // infinity, or a NaN made quiet
        const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
        return std::bit_cast<float>(sign | 0x7f800000u | quiet | (magnitude & 0x3ffu) << 13);
    }
    if (magnitude < 0x400u) {  // subnormal: magnitude * 2^-24, exact in a float
        const float value = static_cast<float>(magnitude) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

constexpr bf16::storage bf16::encode(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<storage>((bits >> 16) | 0x40u);
    return static_cast<storage>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float bf16::decode(storage bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace gx
