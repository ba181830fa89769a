#include <tools/common/json.hpp>

#include <cstddef>  // size_t
#include <set>      // fields of open objects
#include <vector>   // open objects

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>  // Error

namespace gx::tools {

namespace {

constexpr std::size_t most_depth = 64;

/// Checks nesting depth and duplicate keys. It stops at a syntax error, which the parser reports.
class Check final : public Json::json_sax_t {
public:
    explicit Check(const std::string& file) : file_(file) {}
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override { return open(); }
    bool start_array(std::size_t) override { return open(); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& name) override {
        if (!open_.back().insert(name).second)
            throw Error(file_ + ": field '" + name +
                        "' is given twice in one object; give it once");
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
        return false;
    }

private:
    bool open() {
        open_.emplace_back();
        if (open_.size() > most_depth)
            throw Error(fmt::format("{}: nested deeper than {} levels; expected at most as many",
                                    file_, most_depth));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }
    const std::string& file_;
    std::vector<std::set<std::string>> open_{};  // the fields of each object that has not ended
};

}  // namespace

// Twice, as a parser with a callback walks through each container anew when an object in it ends.
Json parse_json(std::string_view text, const std::string& file) {
    Check check(file);
    (void)Json::sax_parse(text, &check);
    try {
        return Json::parse(text);
    } catch (const Json::exception& e) {  // "[json.exception.parse_error.101] parse error at ..."
        std::string why = e.what();
        for (const std::string_view head : {"] ", "parse error at "})
            if (const auto at = why.find(head); at != why.npos) why.erase(0, at + head.size());
        throw Error(file + ": not JSON: " + why);
    }
}

}  // namespace gx::tools
