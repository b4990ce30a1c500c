// json.cc -- json.h over simdjson's document ("DOM") interface.
//
// The DOM parser checks every byte of a document before anything is read from it, with code chosen
// at run time for the CPU. The on-demand interface checks only what is visited; made to visit
// everything it took 175, 223 and 360 ns for objects of 70, 87 and 211 bytes, against 106, 132 and
// 178 ns here (-O2, AVX2 machine).
//
// A json_value of an object or array carries simdjson's own, two words, in `ref`; a json_iter
// carries simdjson's iterator and its end. Both are plain data that point into the parser.
#include "wire/json.h"

#include <cstring>
#include <new>
#include <type_traits>

#include <simdjson.h>

#define must(x) (__builtin_expect(!!(x), 1) ? (void)0 : must_failed(#x, __FILE__, __LINE__))
extern "C" [[noreturn]] void must_failed(const char *what, const char *file, int line);

namespace dom = simdjson::dom;

// Documents up to here find their memory ready; 64 KiB of text is 0.9 MiB of parser.
static constexpr size_t KEPT_BYTES = 64 * 1024;

struct json_parser {
    dom::parser parser;
    size_t text_bytes_max;
    simdjson::error_code error;
};

template <typename T> static void pack(uint64_t *ref, const T &value)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(uint64_t));
    memcpy(ref, &value, sizeof value);
}

template <typename T> static T unpack(const uint64_t *ref, T value)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(uint64_t));
    memcpy(static_cast<void *>(&value), ref, sizeof value);
    return value;
}

static_assert(JSON_PADDING >= simdjson::SIMDJSON_PADDING);

// Both halves are allocated here: left to itself simdjson grows them, and never shrinks. Its depth
// includes the document itself.
static void reserve(json_parser *self, size_t text_bytes)
{
    size_t have = self->parser.capacity();
    bool too_small = text_bytes > have;
    bool too_large = have > KEPT_BYTES && text_bytes <= KEPT_BYTES;
    if (!too_small && !too_large) return;

    size_t want = KEPT_BYTES;
    while (want < text_bytes)
        want *= 2;
    must(self->parser.allocate(want, JSON_DEPTH_MAX + 1) == simdjson::SUCCESS);
    must(self->parser.doc.allocate(want) == simdjson::SUCCESS);
}

json_parser *json_parser_new(size_t text_bytes_max)
{
    json_parser *self = new (std::nothrow) json_parser();
    must(self != nullptr);
    self->text_bytes_max = text_bytes_max;
    reserve(self, KEPT_BYTES);
    return self;
}

void json_parser_free(json_parser *self)
{
    delete self;
}

static void value_of(dom::element element, json_value *out)
{
    switch (element.type()) {
    case dom::element_type::NULL_VALUE:
        out->type = JSON_NULL;
        break;
    case dom::element_type::BOOL:
        out->type = JSON_BOOL;
        out->boolean = element.get_bool().value_unsafe();
        break;
    case dom::element_type::INT64:
        out->type = JSON_INT;
        out->integer = element.get_int64().value_unsafe();
        break;
    case dom::element_type::UINT64: // only past INT64_MAX
    case dom::element_type::DOUBLE:
        out->type = JSON_NUMBER;
        break;
    case dom::element_type::STRING: {
        std::string_view text = element.get_string().value_unsafe();
        out->type = JSON_STRING;
        out->string = bytes{text.data(), text.size()};
        break;
    }
    case dom::element_type::OBJECT:
        out->type = JSON_OBJECT;
        pack(out->ref, element.get_object().value_unsafe());
        break;
    case dom::element_type::ARRAY:
        out->type = JSON_ARRAY;
        pack(out->ref, element.get_array().value_unsafe());
        break;
    }
}

bool json_parse(json_parser *self, bytes text, json_value *root_out)
{
    self->error = simdjson::CAPACITY;
    if (text.size > self->text_bytes_max) return false;
    reserve(self, text.size);

    dom::element root;
    self->error = self->parser.parse(text.data, text.size, false).get(root);
    if (self->error) return false;
    value_of(root, root_out);
    return true;
}

const char *json_problem(const json_parser *self)
{
    switch (self->error) {
    case simdjson::CAPACITY:
        return "it is too long";
    case simdjson::DEPTH_ERROR:
        return "it nests too deeply";
    case simdjson::EMPTY:
        return "it is empty";
    case simdjson::NUMBER_ERROR:
        return "a number is malformed or beyond 64 bits";
    case simdjson::STRING_ERROR:
    case simdjson::UNESCAPED_CHARS:
        return "a string has a bad escape or an unescaped control character";
    case simdjson::UNCLOSED_STRING:
        return "a string is not closed";
    case simdjson::UTF8_ERROR:
        return "it is not UTF-8";
    default:
        return "it is malformed";
    }
}

// Fields mostly come in the order in which they are asked for, so the search for a key begins
// after the name that matched last.
static size_t name_find(const bytes *names, size_t count, size_t from, std::string_view key)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = from + i < count ? from + i : from + i - count;
        if (names[at].size == key.size() && memcmp(names[at].data, key.data(), key.size()) == 0)
            return at;
    }
    return count;
}

void json_pick(const json_value *object, const bytes *names, size_t names_count,
               json_value *values_out)
{
    for (size_t i = 0; i < names_count; i++)
        values_out[i].type = JSON_ABSENT;
    if (object->type != JSON_OBJECT) return;

    size_t from = 0;
    dom::object fields = unpack(object->ref, dom::object());
    for (dom::object::iterator at = fields.begin(), end = fields.end(); at != end; ++at) {
        size_t index = name_find(names, names_count, from, at.key());
        if (index == names_count) continue;
        value_of(at.value(), &values_out[index]);
        from = index + 1;
    }
}

void json_each(const json_value *container, json_iter *iter)
{
    iter->over = container->type;
    iter->key = bytes{nullptr, 0};
    if (container->type == JSON_OBJECT) {
        dom::object fields = unpack(container->ref, dom::object());
        pack(iter->ref, fields.begin());
        pack(iter->ref + 2, fields.end());
    } else if (container->type == JSON_ARRAY) {
        dom::array elements = unpack(container->ref, dom::array());
        pack(iter->ref, elements.begin());
        pack(iter->ref + 2, elements.end());
    }
}

template <typename T> static bool step(json_iter *iter)
{
    T at = unpack(iter->ref, T());
    if (at == unpack(iter->ref + 2, T())) return false;
    if constexpr (std::is_same_v<T, dom::object::iterator>) {
        iter->key = bytes{at.key().data(), at.key().size()};
        value_of(at.value(), &iter->value);
    } else {
        value_of(*at, &iter->value);
    }
    pack(iter->ref, ++at);
    return true;
}

bool json_next(json_iter *iter)
{
    if (iter->over == JSON_OBJECT) return step<dom::object::iterator>(iter);
    if (iter->over == JSON_ARRAY) return step<dom::array::iterator>(iter);
    return false;
}
