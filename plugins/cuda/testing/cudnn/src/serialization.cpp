// Serialized graphs: the descriptors of operations, and what they hold, in hexadecimal.
#include <charconv>  // from_chars

#include "attributes.hpp"
#include "contents.hpp"

namespace gx::cuda_testing {

namespace {

constexpr int deepest = 8;  // an operation, its tensors: 2

void append(std::string& text, std::int64_t number) { text += std::to_string(number) + " "; }
void append(std::string& text, const Contents& contents) {
    append(text, contents.type);
    append(text, std::ssize(contents.values));
    for (const auto& [name, value] : contents.values) {
        append(text, name);
        append(text, value.type);
        append(text, value.count);
        append(text, std::ssize(value.parts));
        if (!value.parts.empty()) {  // its bytes are addresses
            for (const auto& part : value.parts) append(text, *part);
            continue;
        }
        append(text, std::ssize(value.bytes));
        for (const std::byte b : value.bytes) {
            text += "0123456789abcdef"[static_cast<int>(b) / 16];
            text += "0123456789abcdef"[static_cast<int>(b) % 16];
        }
        text += " ";
    }
}

class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    [[nodiscard]] bool at_end() const { return good_ && text_.empty(); }
    [[nodiscard]] bool good() const { return good_; }

    /// From 0 to `most`.
    std::int64_t number(std::int64_t most) {
        std::int64_t value = 0;
        const char* const end = text_.data() + text_.size();
        const auto [at, error] = std::from_chars(text_.data(), end, value);
        good_ =
            good_ && error == std::errc() && at != end && *at == ' ' && value >= 0 && value <= most;
        if (!good_) return 0;
        text_ = {at + 1, end};
        return value;
    }
    std::vector<std::byte> bytes() {
        std::vector<std::byte> all(static_cast<std::size_t>(number(std::ssize(text_) / 2)));
        for (std::byte& b : all) b = static_cast<std::byte>(16 * digit() + digit());
        good_ = good_ && text_.starts_with(' ');
        if (good_) text_.remove_prefix(1);
        return all;
    }
    std::shared_ptr<const Contents> contents(int depth) {
        auto made = std::make_shared<Contents>();
        good_ = good_ && depth < deepest;
        made->type = static_cast<cudnnBackendDescriptorType_t>(number(10'000));
        made->finalized = true;
        const std::int64_t attributes = number(10'000);
        for (std::int64_t i = 0; i < attributes && good_; ++i) {
            AttributeValue& value = made->values[static_cast<int>(number(1'000'000))];
            value.type = static_cast<cudnnBackendAttributeType_t>(number(10'000));
            value.count = number(10'000);
            const std::int64_t parts = number(10'000);
            for (std::int64_t p = 0; p < parts && good_; ++p)
                value.parts.push_back(contents(depth + 1));
            if (parts == 0) value.bytes = bytes();
            good_ = good_ && fits(made->type, made->values.rbegin()->first, value);
        }
        return made;
    }

private:
    /// Values are in the order of their names.
    static bool fits(cudnnBackendDescriptorType_t type, int name, const AttributeValue& value) {
        const AttributeRule* const rule = rule_of(type, static_cast<Attribute>(name));
        if (rule == nullptr || value.count < 1 || value.count > rule->count_max ||
            !is_type_of(*rule, value.type))
            return false;
        for (const auto& part : value.parts)
            if (part->type != rule->part) return false;
        return rule->type == CUDNN_TYPE_BACKEND_DESCRIPTOR
                   ? std::ssize(value.parts) == value.count
                   : std::ssize(value.bytes) == value.count * element_bytes(value.type);
    }
    int digit() {
        if (!good_ || text_.empty()) return good_ = false, 0;
        const auto at = std::string_view("0123456789abcdef").find(text_.front());
        text_.remove_prefix(1);
        if (at == std::string_view::npos) return good_ = false, 0;
        return static_cast<int>(at);
    }
    std::string_view text_;
    bool good_ = true;
};

}  // namespace

std::string text_of(const CudnnGraph& graph) {
    std::string text;
    append(text, std::ssize(graph.operations));
    for (const auto& operation : graph.operations) append(text, *operation);
    return text;
}

std::vector<std::shared_ptr<const Contents>> operations_in(std::string_view text) {
    Reader reader(text);
    std::vector<std::shared_ptr<const Contents>> operations;
    const std::int64_t count = reader.number(10'000);
    for (std::int64_t i = 0; i < count && reader.good(); ++i)
        operations.push_back(reader.contents(0));
    if (!reader.at_end()) operations.clear();
    return operations;
}

}  // namespace gx::cuda_testing
